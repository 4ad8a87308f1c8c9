"""How many threads search, and what does not depend on it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from veristream.ir.network import Network
from veristream.ir.text.read import read_network
from veristream.ir.verify import verify
from veristream.search import limits
from veristream.search.engine import check
from veristream.search.limits import Limits, count_cores
from veristream.search.reach import explore as driver
from veristream.search.reach import safety
from veristream.source import Source
from veristream.verdict import Result

CUBE = """
network cube
const TOP = 20
var n[4]: 0..TOP
component Counter(i: 0..3) {
  location here initial
  edge here -> here { action up when n[i] < TOP do { n[i] := n[i] + 1 } }
}
property low: always n[0] + n[1] + n[2] + n[3] < 50
property odd: reachable n[0] * n[1] == 91 && n[2] > n[3] && n[3] > 5
property most: reachable n[0] > 3 maximise n[1] - n[2]
property whole: always n[0] <= TOP
property no_deadlock: deadlockfree
"""
"""Four counters: 194,481 states, and levels of up to 6,181."""


def network() -> Network:
    result = read_network(Source("cube.net", CUBE))
    verify(result)
    return result


def told(result: Result) -> object:
    """Everything but time and memory."""
    effort = result.effort
    return result.property, result.verdict, effort.states, effort.transitions, effort.depth


def test_a_small_search_is_the_same_with_any_number() -> None:
    wanted = network().properties
    one, *others = (
        [told(result) for result in check(network(), wanted, Limits(workers=workers))]
        for workers in (1, 2, 7, None)
    )
    assert all(other == one for other in others)


def test_a_shared_search_has_the_same_verdicts_counts_and_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of the shortest traces is found depends on which thread is first."""
    monkeypatch.setattr(driver, "SHARED_FROM", 1000)
    monkeypatch.setattr(driver, "WIDE", 64)
    wanted = network().properties
    found = [check(network(), wanted, Limits(workers=workers)) for workers in (1, 2, 3)]
    lengths = [
        [len(result.verdict.trace.steps) for result in results if result.verdict.trace is not None]
        for results in found
    ]
    assert len(lengths[0]) == 4
    assert [each[:2] + each[3:] for each in lengths] == 3 * [lengths[0][:2] + lengths[0][3:]]
    kinds = [[type(result.verdict) for result in results] for results in found]
    assert kinds == 3 * [kinds[0]]
    assert [results[3].effort.states for results in found] == 3 * [21**4]
    assert [results[3].effort.transitions for results in found] == 3 * [4 * 20 * 21**3]
    assert [results[2].verdict.reason for results in found] == 3 * ["max n[1] - n[2] = 20"]


def test_all_cores_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    begin = safety.begin

    def note(*arguments: object) -> object:
        asked.append(int(str(arguments[3])))
        return begin(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(safety, "begin", note)
    monkeypatch.setattr(safety, "count_cores", lambda: 3)
    check(network(), network().properties[:1], Limits())
    check(network(), network().properties[:1], Limits(workers=2))
    assert asked == [3, 2]


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        ("max 100000", 6),
        ("200000 100000", 2),
        ("250000 100000", 3),
        ("5000 100000", 1),
        ("900000 100000", 6),
        ("", 6),
        (None, 6),
    ],
)
def test_cores_that_the_process_may_use(
    quota: str | None, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if quota is not None:
        (tmp_path / "cpu.max").write_text(quota + "\n", encoding="ascii")
    monkeypatch.setattr(limits, "QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    assert count_cores() == cores
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(1000)), raising=False)
    monkeypatch.setattr(limits, "QUOTA", tmp_path / "none")
    assert count_cores() == limits.WORKERS_MAX
