"""CSP#, the language of PAT's CSP module, translated to Networks.

`read` turns text into resolved syntax (`syntax`), `lower` turns syntax into Networks; `lower.network` is
the entry point. `docs/csp.md` describes the language and its semantics.
"""
