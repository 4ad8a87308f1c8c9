"""The text form of a Network: its printer and its reader, which give back the same Network."""
