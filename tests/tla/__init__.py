"""TLA+: constructs and small specifications, whose values and counts TLC confirms in `tests/peers`."""
