"""Recorded histories: what clients of a running broker did and saw, and what follows from it."""
