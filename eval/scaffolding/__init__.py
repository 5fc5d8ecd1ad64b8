"""What a new tree starts from: the starter of an agent, and the way to be rid of the example."""
