"""Replays as text, JSON and pages."""
