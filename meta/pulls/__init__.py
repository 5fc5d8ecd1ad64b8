"""A pull request's life: what people said of it, what overtook it, what they ask for."""
