"""How the committed sample is made; nothing at run time imports this."""
