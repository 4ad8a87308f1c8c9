"""Simulates the upkeep of a chain: snapshots, pruning, joining, upgrades, settings, quotas and rights."""
