"""Intruders on a real Kafka, with and without Kerberos: what they achieve, beside what the models say."""
