"""Infinite runs: temporal formulas, the product with a Büchi automaton, fair components, lassos."""
