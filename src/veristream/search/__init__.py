"""Searches of state spaces: reachability, liveness, traces."""
