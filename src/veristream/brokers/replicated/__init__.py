"""One Apache Kafka cluster of several brokers on this machine, for experiments with replication."""
