"""Champion against challenger."""
