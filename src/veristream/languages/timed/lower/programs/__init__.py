"""Lowers C-like expressions, statements and functions."""
