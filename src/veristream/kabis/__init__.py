"""Kabis: event streaming where each topic chooses Kafka's guarantees or Byzantine-tolerant ones."""
