"""What Kabis needs of Kafka, for the logs of storage parties and for topics that are not validated.

Only this package, `log.kafka` and `client.kafka` import Kafka's client. A cluster cannot sign receipts, so
a storage party remains a process that answers and signs; its log is a topic instead of files.
"""
