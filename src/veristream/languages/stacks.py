"""The height of stacks in models: the command knows it before it knows the language."""

from __future__ import annotations

STACK_MAX = 100
"""How many processes of CSP# may wait behind a `;` at once where one recurses before it, by default."""
STACK_LIMIT = 10_000
"""The largest number that may be asked for."""
