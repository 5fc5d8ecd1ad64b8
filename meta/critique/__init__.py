"""What agents find wrong with each other."""
