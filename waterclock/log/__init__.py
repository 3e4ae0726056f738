"""The Log port and its two implementations: real Kafka, and one in memory that knows the same rules."""
