"""Histories of Jepsen: of its workload for logs such as Kafka, and of its workload for queues."""
