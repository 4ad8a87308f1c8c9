"""Models in Python: state and guarded actions, compiled from the source text and never run."""
