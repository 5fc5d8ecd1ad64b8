"""How a challenger comes about."""
