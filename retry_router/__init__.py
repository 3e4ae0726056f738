"""The retry router: failed attempts in, verdicts and dead letters out."""
