"""Ratchet's tests: unit, integration with real parts, and the whole loop."""
