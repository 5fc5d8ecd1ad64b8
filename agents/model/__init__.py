"""How a real model is asked."""
