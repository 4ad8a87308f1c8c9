"""Recordings and logs that others wrote, read strictly into histories."""
