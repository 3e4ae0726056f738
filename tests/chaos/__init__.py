"""Real fire: real servers and roles under a seeded schedule of faults, judged at rest. See ``play.py``."""
