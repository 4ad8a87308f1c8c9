"""The Spark engine: workers of a shared search as tasks of Spark."""
