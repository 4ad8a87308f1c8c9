"""`veristream check --reduction`: what is left out is told, and can be asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

MODEL = """
network pair
var x: 0..3 = 0
var done: bool
component A {
  location a initial location b location c
  edge a -> b { action first do { x := 1 } } edge b -> c { action second do { x := 2 } }
}
component B { location a initial location b location c edge a -> b {} edge b -> c {} }
component C {
  location a initial location b location c
  edge a -> b { action long } edge b -> c { action longer do { done := true } }
  edge a -> c { action short when x == 0 do { done := true } }
}
property ends: deadlockfree
property finished: reachable done and x == 2
property small: always x <= 2
"""


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    path = tmp_path / "pair.net"
    path.write_text(MODEL, encoding="utf-8")
    return path


def states(run: Any, *arguments: object) -> list[int]:
    document = json.loads(run("check", *arguments, "--json").stdout)
    return [result["states"] for result in document["results"]]


def test_counts_are_reduced_by_default(run: Any, pair: Path) -> None:
    assert states(run, pair, "-p", "small") == [11]
    assert states(run, pair, "-p", "small", "--no-reduction") == [27]


def test_reduced_counts_are_told(run: Any, pair: Path, tmp_path: Path) -> None:
    told = "counts are reduced by partial order (--no-reduction)"
    page = tmp_path / "page.html"
    assert f"  {told}" in run("check", pair, "-p", "small", "--html", page).stdout.splitlines()
    assert told in page.read_text(encoding="utf-8")
    assert "reduced" not in run("check", pair, "-p", "small", "--no-reduction").stdout
    document = json.loads(run("check", pair, "-p", "small", "--json").stdout)
    assert document["results"][0]["reduced"] is True


def test_only_some_counts_are_reduced(run: Any, pair: Path) -> None:
    pair.write_text(MODEL + "property settles: ltl <> [] {x == 2}\n", encoding="utf-8")
    told = run("check", pair, "-p", "small", "-p", "settles").stdout
    assert "  counts of small are reduced by partial order (--no-reduction)" in told.splitlines()


def test_shortest_searches_again(run: Any, pair: Path) -> None:
    longer = run("check", pair, "-p", "finished").stdout
    assert "finished holds, for example by 5 steps:" in longer
    assert "  traces may not be the shortest (--shortest)" in longer.splitlines()
    shortest = run("check", pair, "-p", "finished", "--shortest").stdout
    assert "finished holds, for example by 3 steps (no run is shorter):" in shortest
    assert "reduced" not in shortest


def test_a_trace_found_before_anything_is_left_out_is_shortest(run: Any, counter: Path) -> None:
    assert "low is violated by 3 steps (no run is shorter):" in run("check", counter).stdout
