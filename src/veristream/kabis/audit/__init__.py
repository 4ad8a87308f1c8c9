"""The audit of a chain on Spark: what the ledger admitted, held against what each storage party has."""
