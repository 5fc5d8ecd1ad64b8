"""How a task finds its agent, and an agent its model."""
