"""Recording what clients of RabbitMQ did: a channel that keeps a journal, and workloads that use it."""
