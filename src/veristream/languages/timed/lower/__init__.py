"""Lowers UPPAAL's syntax to one timed Network: types, processes, clocks and queries."""
