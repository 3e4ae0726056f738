"""The HTTP API, the page and the probes: what people and programs talk to."""
