"""Timed networks: searches over zones of clock values."""
