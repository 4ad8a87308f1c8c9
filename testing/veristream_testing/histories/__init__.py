"""Histories for tests: in one line, from a simulated broker, with planted anomalies, and arbitrary ones."""
