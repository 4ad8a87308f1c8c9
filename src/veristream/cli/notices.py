"""Notices about a search, printed once on stderr when it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from veristream.cli.output import echo
from veristream.search.limits import Tell

THINGS_MAX = 8
"""How many things one notice lists; the rest are only counted."""


@contextmanager
def telling() -> Iterator[Tell]:
    """Collects notices and prints them at the end, one line per heading."""
    told: dict[str, dict[str, None]] = {}

    def tell(heading: str, thing: str) -> None:
        told.setdefault(heading, {})[thing] = None

    try:
        yield tell
    finally:
        for heading, things in told.items():
            echo(f"{heading}: {_enumerate(list(things))}", err=True)


def _enumerate(things: list[str]) -> str:
    more = len(things) - THINGS_MAX
    return ", ".join(things[:THINGS_MAX]) + (f" and {more} more" if more > 0 else "")
