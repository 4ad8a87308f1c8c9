"""Scenarios on real brokers, each of which shows what a setting promises, or that it promises less."""
