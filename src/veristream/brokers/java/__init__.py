"""Kafka's own Java producer, in a process of its own that Python tells what to do."""
