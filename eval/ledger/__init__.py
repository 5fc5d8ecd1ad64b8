"""What is kept: decisions, history, provenance."""
