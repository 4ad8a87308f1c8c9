"""UPPAAL's timed automata: small cases derived by hand, and the well-known demos."""
