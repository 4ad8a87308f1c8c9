"""Replays on NSQ."""
