"""The line that shows how far a client has followed the chain, on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from veristream.kabis.client.administration import Replica, visit
from veristream.kabis.client.following import Progress
from veristream.kabis.cluster.access import Access

QUIET_S = 1.0
"""No line appears before this: a short chain is followed at once."""
REFRESH_S = 0.2

Value = TypeVar("Value")


def visit_as_admin(access: Access, work: Callable[[Replica], Awaitable[Value]]) -> Value:
    """Does the work on the ledger as the admin; shows the progress of following the chain."""
    with showing_opening() as shown:
        return visit(access.genesis, access.admin(), work, shown=shown)


@contextmanager
def showing_opening() -> Iterator[Callable[[Progress], object]]:
    """Shows the progress on one line of stderr and clears it at the end; silent unless on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    line = _Line()
    try:
        yield line.show
    finally:
        line.clear()


class _Line:
    """The progress, written from time to time until the end of the chain."""

    def __init__(self) -> None:
        self._next_s = time.monotonic() + QUIET_S
        self._shown = False

    def show(self, progress: Progress) -> None:
        now_s = time.monotonic()
        if progress.height == progress.target:
            self.clear()
        elif now_s >= self._next_s:
            self._next_s, self._shown = now_s + REFRESH_S, True
            sys.stderr.write(f"\r\x1b[K{progress}")
            sys.stderr.flush()

    def clear(self) -> None:
        if self._shown:
            self._shown = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
