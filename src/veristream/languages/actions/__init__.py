"""Models as Python: state and guarded actions, compiled from the source text, never run."""
