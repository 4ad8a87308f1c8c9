"""CSP#, the language of PAT's CSP module."""
