"""Determinism with several threads: the result is the same in every respect."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.event_oracle import process
from tests.property.test_random_refinement import changed_networks, near, patient
from tests.unit.search.refine.test_determinism import grid, judge, read, small_cases
from tests.unit.search.refine.test_refine_workers import told
from veristream.errors import ModelError
from veristream.ir.network import Network
from veristream.ir.verify import verify
from veristream.search.limits import Limits
from veristream.search.reach import explore
from veristream.search.refine import labelled, sharing
from veristream.search.refine.determinism import SharedStates
from veristream.search.refine.labelled import Labelled
from veristream.verdict import Holds, Result, Unknown, Violated


@pytest.fixture(autouse=True)
def shares_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "WIDE", 1)
    monkeypatch.setattr(sharing, "PIECE", 2)


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """Of each batch, its size, and whether several workers checked it."""
    together: list[tuple[int, bool]] = []
    check_together = SharedStates._check_together

    def note(self: SharedStates, size: int) -> bool:
        together.append((size, check_together(self, size)))
        return together[-1][1]

    monkeypatch.setattr(SharedStates, "_check_together", note)
    return together


def judge_all(network: Network) -> Result:
    """The result, which is the same for one, two and three workers."""
    found = [judge(network, Limits(workers=workers)) for workers in (1, 2, 3)]
    assert told(found[1]) == told(found[0])
    assert told(found[2]) == told(found[0])
    return found[0]


@small_cases
def test_small(text: str, event: str | None, steps: int) -> None:
    verdict = judge_all(process(text)).verdict
    assert isinstance(verdict, Holds if event is None else Violated)
    if verdict.trace is not None:
        assert len(verdict.trace.steps) == steps + 1


def test_many_states_in_full(batches: list[tuple[int, bool]]) -> None:
    result = judge_all(grid(59))
    assert isinstance(result.verdict, Holds)
    counts = result.effort.states, result.effort.transitions, result.effort.depth
    assert counts == (60**2, 2 * 60 * 59, 118)
    assert sum(size for size, together in batches if together) == 2 * 60**2
    assert all(together for _, together in batches)


SPLIT = """
network split
var a: 0..30
var b: 0..30
var late: 0..2
component A { location l initial edge l -> l { action right when a < 30 do { a := a + 1 } } }
component B { location l initial edge l -> l { action down when b < 30 do { b := b + 1 } } }
component C { location l initial
  edge l -> l { select k: 1..2  action leave  when a + b == 35 and a > %d and late == 0 do { late := k } }
}
"""


@pytest.mark.parametrize("least", [5, 12, 29])
def test_the_first_violation_of_a_level_is_found(least: int, batches: list[tuple[int, bool]]) -> None:
    result = judge_all(read(SPLIT % least))
    assert result.verdict.reason == "in the last state, leave can lead to 2 different states"
    assert result.verdict.trace is not None and len(result.verdict.trace.steps) == 36
    assert [together for _, together in batches].count(False) == 2  # two and three workers


def test_the_first_fault_of_a_level_is_found() -> None:
    edge = "edge l -> l { action over when a + b == 20 and a > b do { late := a } }"
    text = SPLIT % 0 + "component D { location l initial " + edge + " }"
    result = judge_all(read(text))
    assert isinstance(result.verdict, Unknown) and result.verdict.fault is not None
    assert result.verdict.trace is not None and len(result.verdict.trace.steps) == 21


def test_new_events_and_full_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labelled, "CAPACITY", 2)
    text = """
network many
var n: 0..40
var m: 0..40
component A { location l initial
  edge l -> l { select v: 0..6 action up(n, v) when n < 40 do { n := n + 1 } } }
component B { location l initial edge l -> l { action down(m) when m < 40 do { m := m + 1 } } }
"""
    result = judge_all(read(text))
    assert isinstance(result.verdict, Holds)
    assert (result.effort.states, result.effort.transitions) == (41**2, 8 * 41 * 40)


@pytest.mark.long
@settings(patient, max_examples=25)
@given(pair=near())
def test_random_processes(pair: tuple[str, str]) -> None:
    for text in pair:
        judge_all(process(text))


@pytest.mark.long
@settings(patient, max_examples=15)
@given(pair=changed_networks())
def test_random_networks(pair: tuple[Network, Network]) -> None:
    for network in pair:
        try:
            verify(network)
        except ModelError:
            continue
        judge_all(network)


@pytest.mark.parametrize("most", [30, 35])
def test_one_worker_up_to_a_size(
    most: int, batches: list[tuple[int, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several workers continue where one has stopped, in the middle of a level."""
    monkeypatch.setattr(explore, "count_cores", lambda: 2)
    network = read(SPLIT.replace("30", str(most)) % 20)
    alone = judge(network)
    assert isinstance(alone.verdict, Violated) and batches == []
    monkeypatch.setattr(explore, "SHARED_FROM", 300)
    monkeypatch.setattr("veristream.search.session.QUANTUM", 30)
    assert told(judge(network)) == told(alone)
    assert sum(size for size, together in batches if together) < alone.effort.states - 250
    assert len(batches) > 10


def test_edges_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Labelled] = []
    forget = Labelled.forget_edges

    def note(self: Labelled) -> None:
        found.append(self)
        forget(self)

    monkeypatch.setattr(Labelled, "forget_edges", note)
    judge(grid(59), Limits(workers=2))
    system, slots = found[-1], found[-1].native.store.slot_count
    assert system.byte_count == 60**2 * (8 * system.native.store.word_count + 20) + 4 * slots
