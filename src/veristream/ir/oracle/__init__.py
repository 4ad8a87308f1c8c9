"""The oracle: slow, obvious interpreters of Networks, with and without clocks."""
