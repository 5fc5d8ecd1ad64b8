"""How trials are run and summed."""
