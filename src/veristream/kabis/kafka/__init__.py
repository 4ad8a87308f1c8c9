"""Kafka under Kabis: a party's log on a cluster of its own, and topics that are not validated.

Only this package knows Kafka's client. A cluster cannot sign receipts, so a storage party stays the process
that it is: it answers and signs, and its log is a topic instead of files.
"""
