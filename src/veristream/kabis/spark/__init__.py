"""`format("kabis")`: Spark reads and writes topics, in batches and as streams."""
