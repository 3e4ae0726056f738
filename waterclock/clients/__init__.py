"""Schedule jobs from any Python program: by Kafka, or by the HTTP API."""
