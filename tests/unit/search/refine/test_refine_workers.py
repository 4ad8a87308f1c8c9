"""Refinement with several threads: the result is the same in every respect."""

from __future__ import annotations

import pytest

from tests.event_oracle import process
from tests.unit.search.refine.test_refinement import (
    CELLS,
    MODELS,
    QUEUE,
    compare,
    counters,
    every_case,
)
from veristream.ir.network import Network
from veristream.ir.property import RefinementModel
from veristream.ir.text.read import read_network
from veristream.search.limits import Limits
from veristream.search.reach import explore
from veristream.search.refine import labelled, pairs
from veristream.search.refine.labelled import Labelled
from veristream.source import Source
from veristream.verdict import Holds, Result, Unknown, word


@pytest.fixture(autouse=True)
def shares_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "WIDE", 1)


def told(result: Result) -> object:
    """Everything but time and memory."""
    effort = result.effort
    return result.verdict, effort.states, effort.transitions, effort.depth


def compare_all(implementation: Network, specification: Network, model: RefinementModel) -> Result:
    """The result, which is the same for one, two and three workers."""
    found = [compare(implementation, specification, model, Limits(workers=w)) for w in (1, 2, 3)]
    assert told(found[1]) == told(found[0])
    assert told(found[2]) == told(found[0])
    return found[0]


@pytest.mark.parametrize("model", MODELS)
@every_case
def test_textbook(implementation: str, specification: str, refines: str, model: RefinementModel) -> None:
    result = compare_all(process(implementation), process(specification), model)
    assert word(result.verdict) == ("holds" if model in refines.split() else "violated")


@pytest.mark.parametrize(("room", "verdict"), [(8, "holds"), (7, "violated")])
@pytest.mark.parametrize("model", MODELS)
def test_cells(model: RefinementModel, room: int, verdict: str) -> None:
    cells = read_network(Source("cells.net", CELLS), {"N": 8})
    result = compare_all(cells, read_network(Source("queue.net", QUEUE % room)), model)
    assert word(result.verdict) == verdict
    if verdict == "holds":
        assert result.effort.states == 3**8


def test_many_states_in_full() -> None:
    result = compare_all(counters(149), process("0 up 0"), "T")
    assert isinstance(result.verdict, Holds)
    assert (result.effort.states, result.effort.transitions) == (150**2, 2 * 150 * 149)


def test_workers_expand_nearly_all_states(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Labelled] = []
    expand_ahead = Labelled.expand_ahead

    def note(self: Labelled, states: int, count: int) -> None:
        expand_ahead(self, states, count)
        found.append(self)

    monkeypatch.setattr(Labelled, "expand_ahead", note)
    compare(counters(149), process("0 up 0"), "T", Limits(workers=3))
    assert found[-1].state_count == 150**2
    assert found[-1].byte_count < 150**2 * 100 + (1 << 20)


def test_a_new_event_a_fault_and_full_buffers_are_left_to_one_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(labelled, "CAPACITY", 2)
    text = """
network many
var n: 0..30
var m: 0..40
component A { location l initial edge l -> l { select v: 0..6 action up(n + v) do { n := n + 1 } } }
component B { location l initial edge l -> l { action down(m) when m < 40 do { m := m + 1 } } }
"""
    implementation = read_network(Source("many.net", text))
    result = compare_all(implementation, implementation, "T")
    assert isinstance(result.verdict, Unknown)
    assert "outside" in result.verdict.reason


def test_one_worker_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    shared: list[int] = []
    monkeypatch.setattr(Labelled, "expand_ahead", lambda self, states, count: shared.append(count))
    monkeypatch.setattr(explore, "count_cores", lambda: 2)
    compare(counters(399), process("0 up 0"), "T", Limits())
    assert shared == []
    monkeypatch.setattr(explore, "SHARED_FROM", 1000)
    compare(counters(399), process("0 up 0"), "T", Limits())
    assert shared
