"""The progress line: nothing at first, nothing without a terminal."""

from __future__ import annotations

import io
import sys
import threading
from dataclasses import replace

import pytest

from veristream.cli.progress import describe, showing_progress, telling_steps
from veristream.search.limits import Progress, silent
from veristream.verdict import Spread

PROGRESS = Progress(1_000_000, 5_000_000, 12, "safe[0]", 99.5, 4.0, frontier=3456)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_line() -> None:
    assert describe(PROGRESS) == (
        "1,000,000 states (250,000/s), frontier 3,456, depth 12, 100 MiB, 4.0 s: safe[0]"
    )


@pytest.mark.parametrize(
    ("spread", "told"),
    [
        (Spread(4, 1.254, 3 << 20, 0), "4 parts (largest 1.25 times the mean), 3.0 MiB exchanged, "),
        (
            Spread(2, 1.0, 0, 2 << 30),
            "2 parts (largest 1.00 times the mean), 0.0 MiB exchanged, 2.0 GiB on disk, ",
        ),
        (Spread(1, 1.0, 0, 0), "1 part, "),
    ],
)
def test_line_of_a_shared_search(spread: Spread, told: str) -> None:
    assert describe(replace(PROGRESS, spread=spread)) == (
        f"1,000,000 states (250,000/s), frontier 3,456, depth 12, 100 MiB, {told}4.0 s: safe[0]"
    )


def test_silent_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with showing_progress(quiet_seconds=0) as report:
        assert report is silent


def test_silent_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with showing_progress(quiet_seconds=60) as report:
        report(PROGRESS)
    assert terminal.getvalue() == ""


def test_shown_to_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with showing_progress(quiet_seconds=0) as report:
        report(PROGRESS)
        report(PROGRESS)
    assert "4.0 s: safe[0]" in terminal.getvalue()


def test_steps_are_silent_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    error = io.StringIO()
    monkeypatch.setattr(sys, "stderr", error)
    with telling_steps(quiet_seconds=0) as tell:
        tell("checking")
    assert error.getvalue() == ""


def test_steps_are_silent_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with telling_steps(quiet_seconds=60) as tell:
        tell("checking")
    assert terminal.getvalue() == ""


def test_steps_are_shown_to_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, seen = Terminal(), threading.Event()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")

    def more() -> str:
        seen.set()
        return ", 3 of 8 tasks"

    with telling_steps(more, quiet_seconds=0) as tell:
        tell("checking")
        seen.wait()
    assert ", 3 of 8 tasks, " in terminal.getvalue()
