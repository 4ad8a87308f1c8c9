"""The catalogue: each property in words, what models say of it, and its check on histories."""
