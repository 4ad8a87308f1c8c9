"""The progress line of a search, on stderr."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from veristream.report.words import show_memory, show_seconds
from veristream.search.limits import Progress, Report, silent
from veristream.verdict import Spread

if TYPE_CHECKING:
    from rich.status import Status

MIB = 1 << 20
QUIET_SECONDS = 2.0
"""No progress line appears before this: nobody could read that of a shorter search."""


REFRESH_SECONDS = 0.5

Tell = Callable[[str], None]


@contextmanager
def telling_steps(more: Callable[[], str] = str, quiet_seconds: float = QUIET_SECONDS) -> Iterator[Tell]:
    """Yields a function that takes the current step of a long task, for a status line with `more` and the
    time that has passed; silent unless stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    steps, done = _Steps(more, quiet_seconds), threading.Event()
    watching = threading.Thread(target=steps.watch, args=(done,), daemon=True)
    watching.start()
    try:
        yield steps.tell
    finally:
        done.set()
        watching.join()


class _Steps:
    """The current step, which a thread of its own shows."""

    def __init__(self, more: Callable[[], str], quiet_seconds: float) -> None:
        self._more = more
        self._quiet_seconds = quiet_seconds
        self._text = ""
        self._began = time.monotonic()

    def tell(self, text: str) -> None:
        self._text = text

    def watch(self, done: threading.Event) -> None:
        if done.wait(self._quiet_seconds):
            return
        from rich.console import Console

        with Console(stderr=True).status("", spinner="dots") as status:
            while True:
                status.update(f"{self._text}{self._more()}, {show_seconds(time.monotonic() - self._began)}")
                if done.wait(REFRESH_SECONDS):
                    return


@contextmanager
def showing_progress(quiet_seconds: float = QUIET_SECONDS) -> Iterator[Report]:
    """Yields a report that keeps one status line up to date; silent unless stderr is a terminal."""
    if not sys.stderr.isatty():
        yield silent
        return
    line = _Line(time.monotonic, quiet_seconds)
    try:
        yield line.report
    finally:
        line.close()


def describe(progress: Progress) -> str:
    """Formats the status line."""
    rate = progress.states / progress.seconds if progress.seconds > 0 else 0.0
    return (
        f"{progress.states:,} states ({rate:,.0f}/s), frontier {progress.frontier:,}, "
        f"depth {progress.depth:,}, {show_memory(progress.memory_mib)}, {_spread(progress.spread)}"
        f"{show_seconds(progress.seconds)}: {progress.task}"
    )


def _spread(spread: Spread | None) -> str:
    """Formats how a distributed search is spread: parts, skew, bytes exchanged and spilled."""
    if spread is None:
        return ""
    spilled = f"{show_memory(spread.spilled_bytes / MIB)} on disk, " if spread.spilled_bytes else ""
    if spread.parts == 1:
        return f"1 part, {spilled}"
    exchanged = f"{show_memory(spread.exchanged_bytes / MIB)} exchanged, "
    return f"{spread.parts} parts (largest {spread.skew:.2f} times the mean), {exchanged}{spilled}"


class _Line:
    """A status line that appears once the search has taken a while."""

    def __init__(self, clock: Callable[[], float], quiet_seconds: float) -> None:
        self.clock = clock
        self.visible_from = clock() + quiet_seconds
        self.status: Status | None = None

    def report(self, progress: Progress) -> None:
        if self.status is None:
            if self.clock() < self.visible_from:
                return
            self.status = self._start()
        from rich.text import Text

        room = self.status.console.width - 4  # rich cannot erase a line that wraps
        self.status.update(Text(describe(progress)[:room]))

    def _start(self) -> Status:
        from rich.console import Console

        status = Console(stderr=True).status("", spinner="dots")
        status.start()
        return status

    def close(self) -> None:
        if self.status is not None:
            self.status.stop()
