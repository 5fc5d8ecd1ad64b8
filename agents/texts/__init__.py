"""What the model reads, and what competes for it."""
