"""Partial-order reduction: of the interleavings of independent actions, a search explores a few."""
