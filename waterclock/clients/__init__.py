"""What other programs send commands with: by the API, or straight to Kafka."""
