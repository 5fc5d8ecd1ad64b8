"""Who earns their keep."""
