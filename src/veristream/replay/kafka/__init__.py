"""Replays on Kafka: clients, the messages between them and the brokers, and what is observed in the end."""
