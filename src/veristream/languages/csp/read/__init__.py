"""From CSP# text to syntax: tokens, trees, included files, and every name resolved."""
