"""Kerberos on this machine: a key distribution centre, a Kafka that demands tickets, and clients."""
