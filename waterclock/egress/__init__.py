"""The one way out of the house: every call to a foreign address goes through here."""
