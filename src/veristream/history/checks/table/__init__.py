"""The rows of a bucket with their partitions and messages numbered, shared by all checks."""
