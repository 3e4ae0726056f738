"""The contract with the outside: Avro records and Cassandra tables. No logic."""
