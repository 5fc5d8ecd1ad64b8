"""What is known about an agent."""
