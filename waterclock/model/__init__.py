"""Values and rules. Imports nothing else of ours, reads no clock, touches no network."""
