"""The progress line: nothing at first, nothing without a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from veristream.cli.progress import describe, showing_progress
from veristream.search.limits import Progress, silent

PROGRESS = Progress("safe[0]", 1_000_000, 5_000_000, 12, 3456, 99.5, 4.0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_line() -> None:
    assert describe(PROGRESS) == (
        "1,000,000 states (250,000/s), frontier 3,456, depth 12, 100 MiB, 4.0 s: safe[0]"
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
