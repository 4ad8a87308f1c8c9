"""The input languages; each translates its own syntax into a Network."""
