"""CSP# held against a slow, obvious interpreter of its own."""
