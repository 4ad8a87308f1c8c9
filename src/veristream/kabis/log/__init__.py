"""Logs of opaque records: on disk, on Kafka, in memory."""
