"""A log in segments on disk, its recovery and its repair."""
