"""Audits a chain on Spark: compares what the ledger admitted with what each storage party has."""
