"""Bytes in and out: Avro single objects, text headers, names of topics and groups."""
