"""The door for other services: checks what they send to job-events, and re-keys it."""
