"""The language every role speaks. Roles import it; it never imports them."""
