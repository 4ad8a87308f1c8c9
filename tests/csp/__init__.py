"""CSP# compared with a slow, obvious interpreter."""
