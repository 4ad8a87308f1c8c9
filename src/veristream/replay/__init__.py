"""Replays: a run of a model, executed on a real broker by steering clients and messages."""
