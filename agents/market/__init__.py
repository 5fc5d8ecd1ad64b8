"""The example domain: market agents, their sources, their sample."""
