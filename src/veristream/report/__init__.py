"""Verdicts for people and programs: text, charts and JSON."""
