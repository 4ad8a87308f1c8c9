"""Properties of offsets and of the groups that read logs."""
