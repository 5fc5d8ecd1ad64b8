"""What the field teaches: runs whose right answer is known by now, made into cases for a person to confirm."""
