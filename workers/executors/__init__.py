"""How an attempt reaches its work."""
