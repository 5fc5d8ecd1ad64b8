"""How agents are run."""
