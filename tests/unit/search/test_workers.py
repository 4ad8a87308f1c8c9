"""How many threads search, and what does not depend on it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from veristream.ir.network import Network
from veristream.ir.state import initial_state
from veristream.ir.text.read import read_network
from veristream.ir.verify import verify
from veristream.kernel.layout import encode
from veristream.kernel.load import load_kernel
from veristream.search import limits
from veristream.search.engine import check
from veristream.search.limits import Limits, count_cores
from veristream.search.reach import explore as driver
from veristream.search.reach import safety
from veristream.search.reach.batch import batches, code_of
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


def test_a_small_search_is_the_same_on_any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "WIDE", 64)
    wanted = network().properties
    one = [told(result) for result in check(network(), wanted, Limits(workers=1))]
    for cores in (1, 2, 7):
        monkeypatch.setattr(safety, "count_cores", lambda cores=cores: cores)
        assert [told(result) for result in check(network(), wanted, Limits())] == one


def test_a_shared_search_has_the_same_verdicts_counts_and_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of the shortest traces is found depends on which thread is first."""
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
    asked: list[tuple[object, ...]] = []
    begin = safety.begin

    def note(*arguments: object) -> object:
        asked.append((arguments[3], arguments[5]))
        return begin(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(safety, "begin", note)
    monkeypatch.setattr(safety, "count_cores", lambda: 3)
    check(network(), network().properties[:1], Limits())
    check(network(), network().properties[:1], Limits(workers=2))
    assert asked == [(3, driver.SHARED_FROM), (2, 0)]


@pytest.mark.parametrize(("shared_from", "threads"), [(0, 2), (1000, 2), (10**6, 1)])
def test_workers_begin_when_the_search_is_large(shared_from: int, threads: int) -> None:
    batch = batches(network().properties[3:4])[0]
    kernel = load_kernel(network(), batch.watch())
    initial = encode(kernel.layout, network(), initial_state(network()))
    code = code_of(kernel, batch.plan(), reduced=False)
    exploration = driver.begin(code, initial, batch.plan(), 2, None, shared_from)
    while not exploration.complete:
        exploration.advance()
    exploration.close()
    assert (len(exploration.own), exploration.state_count) == (threads, 21**4)


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
