"""The text form of a Network: a printer and a reader that are inverse to each other."""
