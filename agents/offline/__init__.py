"""The model that needs no key."""
