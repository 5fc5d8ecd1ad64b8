"""What a case is, and how right an answer is."""
