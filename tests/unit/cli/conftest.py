"""Runs the command in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from veristream.cli.app import app

Run = Callable[..., Result]

COUNTER = """network counter
const LIMIT = 3
var n: 0..LIMIT
component Counter {
  location here initial
  edge here -> here { action up    when n < LIMIT  do { n := n + 1 } }
  edge here -> here { action down  when n > 0      do { n := n - 1 } }
}
property low: always n < LIMIT
property bounded: always n <= LIMIT
property top: reachable n == LIMIT
property returns: ltl [] <> {n == 0}
property no_deadlock: deadlockfree
"""


@pytest.fixture
def run() -> Run:
    """Runs `veristream ARGUMENTS`; an exception that is not an exit fails the test."""

    def invoke(*arguments: object) -> Result:
        return CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)

    return invoke


@pytest.fixture
def counter(tmp_path: Path) -> Path:
    """A model of four states."""
    path = tmp_path / "counter.net"
    path.write_text(COUNTER, encoding="utf-8")
    return path
