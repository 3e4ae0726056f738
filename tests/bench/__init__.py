"""Benches: speed as figures, apart from the tests."""
