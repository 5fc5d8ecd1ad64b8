"""The night on a laptop."""
