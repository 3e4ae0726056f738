"""The local stack: real Kafka, real Cassandra and all roles, supervised."""
