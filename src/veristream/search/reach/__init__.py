"""Reachability: the breadth-first loop over states, and the safety properties it decides."""
