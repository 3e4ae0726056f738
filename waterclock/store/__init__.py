"""The Store port and its two implementations: real Cassandra, and one in memory that knows the same rules."""
