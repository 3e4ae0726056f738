"""Cassandra tables, one numbered migration each."""
