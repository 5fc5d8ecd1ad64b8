"""How rows are read, summed and drawn."""
