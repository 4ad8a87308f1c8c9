"""A storage party: what it stores for producers and consumers, and its client."""
