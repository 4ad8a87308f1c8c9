"""From resolved CSP# syntax to Networks.

In order: `terms` (what is left to run), `steps` (their semantics, as `moves`), `automata` (terms become
locations), `components` (automata become components of a Network), `claims` (assertions become
properties) and `ranges` (small types for variables). `network` runs them all.
"""
