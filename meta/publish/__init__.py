"""What may be proposed: kinds, guard, hand-over."""
