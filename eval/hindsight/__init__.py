"""Was it right to promote? What was decided, tested again on cases that nobody had when it was decided."""
