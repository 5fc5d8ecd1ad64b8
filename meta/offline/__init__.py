"""How the offline model criticises, proposes and patches."""
