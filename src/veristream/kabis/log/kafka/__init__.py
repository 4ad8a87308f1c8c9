"""A storage party's log as a topic of its own Kafka cluster."""
