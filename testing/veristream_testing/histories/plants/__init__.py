"""Anomalies that are planted in histories of the simulated broker."""
