"""Recording clients of Kafka: confluent-kafka's producer and consumer, wrapped."""
