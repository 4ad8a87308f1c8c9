"""Languages: each turns its own text into a Network."""
