"""Explores systems whose language computes their steps itself, value by value.

A language whose values have no bounds cannot be laid out in rows; `system.py` says what it gives instead.
"""
