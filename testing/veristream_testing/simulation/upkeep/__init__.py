"""Simulates the upkeep of a chain: snapshots, pruning, joining, upgrades, settings, rights, members."""
