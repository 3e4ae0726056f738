"""The recorder: run-events and commands in, history out."""
