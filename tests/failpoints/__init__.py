"""Crash points: named places in the roles' code at which a process kills itself, patched in from here alone."""
