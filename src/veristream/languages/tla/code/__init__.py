"""Compiles expressions and actions to Python."""
