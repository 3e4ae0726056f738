"""Avro records, one file each. See ``schemas/__init__.py`` for the rules."""
