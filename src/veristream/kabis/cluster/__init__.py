"""A cluster on one machine: its folder, its processes, faults, chaos and status."""
