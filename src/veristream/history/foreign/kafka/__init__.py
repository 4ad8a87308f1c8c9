"""What Kafka's own tools print: the verifiable producer and consumer, and dumps of a broker's log."""
