"""The two agents that improve the others."""
