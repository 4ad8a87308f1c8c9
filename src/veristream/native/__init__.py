"""Search loops as native code: compiled ahead of time, called from Python."""
