"""The DAG engine: outcomes in, released nodes out. It comes with its own issue; nothing here runs yet."""
