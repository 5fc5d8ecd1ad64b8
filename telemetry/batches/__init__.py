"""How rows become training batches: what may leave, how it is made anonymous, and a record of what left."""
