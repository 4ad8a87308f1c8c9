"""What the command writes."""

from __future__ import annotations

import sys


def echo(text: str, *, err: bool = False) -> None:
    """Writes a line to stdout, or to stderr with `err`, at once."""
    print(text, file=sys.stderr if err else sys.stdout, flush=True)
