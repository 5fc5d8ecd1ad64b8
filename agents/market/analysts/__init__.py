"""What the offline model knows about markets."""
