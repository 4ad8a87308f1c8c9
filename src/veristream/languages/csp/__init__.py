"""CSP#, the language of PAT's CSP module, translated to Networks.

`read` turns text into resolved syntax (`syntax`), `lower` turns syntax into Networks; `lower.network` is
the entry point. `docs/csp.md` describes the language and its semantics.
"""

from __future__ import annotations

STACK_MAX = 100
"""How many processes may wait behind a `;` at once where a process recurses before one, by default."""
STACK_LIMIT = 10_000
"""The largest number that may be asked for."""
