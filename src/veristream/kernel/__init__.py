"""Compiles Networks to native code."""
