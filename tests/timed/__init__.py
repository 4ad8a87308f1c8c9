"""Timed automata: small cases with verdicts derived by hand, and UPPAAL's demos."""
