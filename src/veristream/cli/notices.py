"""What a user should know of how a search went, on stderr, once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from veristream.search.limits import Tell

THINGS_MAX = 8
"""Of more things that are said under one heading, the others are counted."""


@contextmanager
def telling() -> Iterator[Tell]:
    """Gathers what is told and says it at the end, one line for each heading."""
    told: dict[str, dict[str, None]] = {}

    def tell(heading: str, thing: str) -> None:
        told.setdefault(heading, {})[thing] = None

    try:
        yield tell
    finally:
        for heading, things in told.items():
            typer.echo(f"{heading}: {_enumerate(list(things))}", err=True)


def _enumerate(things: list[str]) -> str:
    more = len(things) - THINGS_MAX
    return ", ".join(things[:THINGS_MAX]) + (f" and {more} more" if more > 0 else "")
