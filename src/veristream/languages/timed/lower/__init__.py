"""From UPPAAL's syntax to one timed Network: types, processes, clocks, queries."""
