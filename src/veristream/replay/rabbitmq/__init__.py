"""Replays on RabbitMQ."""
