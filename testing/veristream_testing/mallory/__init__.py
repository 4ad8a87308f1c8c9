"""A registered client that attacks a real cluster, and how honest ones fare; for tests and a benchmark."""
