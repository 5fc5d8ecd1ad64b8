"""The sandbox for code."""
