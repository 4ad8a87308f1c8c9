"""Refinement with several threads: the result is the same in every respect."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.event_oracle import process
from tests.property.test_random_refinement import changed_networks, models, near, patient
from tests.unit.search.refine.test_refinement import (
    CELLS,
    MODELS,
    QUEUE,
    compare,
    counters,
    every_case,
)
from veristream.errors import ModelError
from veristream.ir.network import Network
from veristream.ir.property import RefinementModel
from veristream.ir.text.read import read_network
from veristream.ir.verify import verify
from veristream.search.limits import Limits
from veristream.search.reach import explore
from veristream.search.refine import labelled, sharing
from veristream.search.refine.labelled import Labelled
from veristream.search.refine.sharing import SharedPairs
from veristream.search.refine.system import Shift
from veristream.source import Source
from veristream.verdict import Holds, Result, Unknown, word


@pytest.fixture(autouse=True)
def shares_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "WIDE", 1)
    monkeypatch.setattr(sharing, "PIECE", 2)


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each batch, whether several workers checked it."""
    together: list[bool] = []
    check_together = SharedPairs._check_together

    def note(self: SharedPairs, size: int) -> bool:
        together.append(check_together(self, size))
        return together[-1]

    monkeypatch.setattr(SharedPairs, "_check_together", note)
    return together


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


@pytest.mark.parametrize("model", MODELS)
def test_several_workers_check_whatever_holds(model: RefinementModel, batches: list[bool]) -> None:
    cells = read_network(Source("cells.net", CELLS), {"N": 6})
    compare_all(cells, read_network(Source("queue.net", QUEUE % 6)), model)
    assert len(batches) > 2 * 20
    assert all(batches)


LATTICE = """
network lattice
var n[2]: 0..9
component A { location l initial edge l -> l { action a when n[0] < 9 do { n[0] := n[0] + 1 } } }
component B { location l initial edge l -> l { action b when n[1] < 9 do { n[1] := n[1] + 1 } } }
"""


@pytest.mark.parametrize("model", ["T", "FD"])
def test_which_pairs_are_covered_does_not_depend_on_workers(model: RefinementModel) -> None:
    """Every state is reached by many traces, with nodes that are part of each other or are not. Which pairs
    are left out depends on the order in which they are found."""
    tail = "; ".join(f"{i} a {i + 1}; {i} b {i + 1}" for i in range(1, 19))
    specification = process(f"0 a 0; 0 b 0; 0 a 1; 0 b 20; 20 b 20; {tail}")
    result = compare_all(read_network(Source("lattice.net", LATTICE)), specification, model)
    assert result.effort.states > 10 * 10 * 10


def test_many_nodes_of_one_state(batches: list[bool]) -> None:
    """More than a new pair is compared with, so that each worker needs its map of the others."""
    ring = "; ".join(f"{i} up {(i + 1) % 700}" for i in range(700))
    result = compare_all(process("0 up 1; 1 up 0"), process(ring), "T")
    assert (word(result.verdict), result.effort.states) == ("holds", 700)
    assert all(batches)


def test_a_batch_that_is_too_large_is_made_smaller(
    monkeypatch: pytest.MonkeyPatch, batches: list[bool]
) -> None:
    monkeypatch.setattr(sharing, "BUCKET", 64)
    result = compare_all(counters(60), process("0 up 0"), "T")
    assert isinstance(result.verdict, Holds)
    assert batches.count(False) in range(1, 5)
    assert batches.count(True) > 2 * 120


@settings(patient, max_examples=25)
@given(pair=near(), model=models)
def test_random_processes(pair: tuple[str, str], model: RefinementModel) -> None:
    compare_all(process(pair[0]), process(pair[1]), model)


@settings(patient, max_examples=15)
@given(pair=changed_networks(), model=models)
def test_random_networks(pair: tuple[Network, Network], model: RefinementModel) -> None:
    try:
        for network in pair:
            verify(network)
    except ModelError:
        return
    compare_all(*pair, model)


def test_workers_expand_nearly_all_states(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Labelled] = []
    expand_ahead = Labelled.expand_ahead

    def note(self: Labelled, shift: Shift) -> int:
        found.append(self)
        return expand_ahead(self, shift)

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


def test_the_run_to_a_fault_does_not_depend_on_workers() -> None:
    """Each state before the fault is reached by two steps, which different workers may take first."""
    step = "action c when n[0] + n[1] == 11 do { n[0] := n[0] + n[1] }"
    text = LATTICE + "component C { location l initial edge l -> l { " + step + " } }"
    result = compare_all(read_network(Source("lattice.net", text)), process("0 a 0; 0 b 0; 0 c 0"), "T")
    assert isinstance(result.verdict, Unknown) and result.verdict.fault is not None
    assert result.verdict.trace is not None and len(result.verdict.trace.steps) == 12


def test_one_worker_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    shared: list[int] = []
    expand_ahead = Labelled.expand_ahead

    def note(self: Labelled, shift: Shift) -> int:
        shared.append(shift.size)
        return expand_ahead(self, shift)

    monkeypatch.setattr(Labelled, "expand_ahead", note)
    monkeypatch.setattr(explore, "count_cores", lambda: 2)
    compare(counters(399), process("0 up 0"), "T", Limits())
    assert shared == []
    monkeypatch.setattr(explore, "SHARED_FROM", 1000)
    compare(counters(399), process("0 up 0"), "T", Limits())
    assert shared
