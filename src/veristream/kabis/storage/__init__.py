"""A storage party: a log on disk, what it keeps for producers and consumers, and its process."""
