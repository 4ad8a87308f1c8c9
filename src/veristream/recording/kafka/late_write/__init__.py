"""A write that is late by a transaction, in all combinations of client, broker and its settings."""
