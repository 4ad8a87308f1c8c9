"""Consumers: events in order, groups, commits."""
