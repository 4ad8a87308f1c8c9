"""C-like expressions, statements and functions as the IR's."""
