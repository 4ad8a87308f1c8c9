"""Runs searched by several threads: verdicts and counts of whole products do not depend on how many."""

from __future__ import annotations

import threading
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ltl.oracle import breaks
from tests.ltl.test_random import compare, dense_networks, looks, patient, properties
from veristream.ir.network import Network
from veristream.ir.property import Property
from veristream.ir.text.read import read_network
from veristream.ir.verify import verify
from veristream.search import threads
from veristream.search.engine import check
from veristream.search.limits import Limits
from veristream.search.reach import explore as driver
from veristream.search.runs import liveness
from veristream.search.runs.explored import explored_part
from veristream.search.runs.graph import source_of
from veristream.search.runs.liveness import LocalRuns
from veristream.search.runs.product import Product
from veristream.source import Source
from veristream.verdict import Result, Violated, word

WHEELS = """
network wheels
const TOP = 9
var n[3]: 0..TOP
component Wheel(i: 0..2) {
  location here initial
  edge here -> here { action up(i) when n[i] < TOP do { n[i] := n[i] + 1 } }
  edge here -> here { action reset(i) when n[i] == TOP do { n[i] := 0 } }
}
component Sink {
  location out initial
  location in
  edge out -> in { action fall when n[0] == TOP and n[1] == TOP and n[2] == TOP }
  edge in -> in { action stay }
}
property turns: ltl [] <> {n[0] == 0} under strong-process
property turns_weakly: ltl [] <> {n[0] == 0} under weak-process
property turns_unfairly: ltl [] <> {n[0] == 0}
property falls: ltl <> {Sink@in} under strong-process
property falls_globally: ltl <> {Sink@in} under strong-global
property rises: n[1] == 3 leadsto n[1] == 4 or n[2] == 7 under weak-action
property stays: n[1] == 3 leadsto n[2] == 7 or n[0] == 5 under weak-process
"""
"""Three counters that turn, with a state from which all can stop."""

VERDICTS = {
    "turns": "holds",
    "turns_weakly": "holds",
    "turns_unfairly": "violated",
    "falls": "violated",
    "falls_globally": "holds",
    "rises": "holds",
    "stays": "holds",
}


@pytest.fixture
def shares_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "WIDE", 1)
    monkeypatch.setattr(threads, "LEAST", 1)


def wheels() -> Network:
    network = read_network(Source("wheels.net", WHEELS))
    verify(network)
    return network


@pytest.mark.usefixtures("shares_everything")
@pytest.mark.parametrize("name", VERDICTS)
def test_verdicts_and_counts_are_those_of_one_worker(name: str) -> None:
    network = wheels()
    (property_,) = (one for one in network.properties if one.name == name)
    found = [check(network, [property_], Limits(workers=workers))[0] for workers in (1, 2, 3)]
    assert [word(result.verdict) for result in found] == 3 * [VERDICTS[name]]
    if VERDICTS[name] == "holds":
        efforts = {(one.effort.states, one.effort.transitions, one.effort.depth) for one in found}
        assert len(efforts) == 1
    for result in found:
        if isinstance(result.verdict, Violated):
            assert result.verdict.trace is not None
            assert breaks(network, property_, result.verdict.trace)


@pytest.mark.usefixtures("shares_everything")
@pytest.mark.parametrize(("name", "count"), [("turns_unfairly", 6301), ("rises", 630)])
def test_several_workers_keep_the_same_edges(name: str, count: int) -> None:
    network = wheels()
    (property_,) = (one for one in network.properties if one.name == name)
    edges = [edges_of(network, property_, workers) for workers in (1, 2, 3)]
    assert len(edges[0]) == count
    assert edges[1] == edges[0]
    assert edges[2] == edges[0]


def edges_of(network: Network, property_: Property, workers: int) -> list[tuple[bytes, bytes, int]]:
    """All kept edges, by the rows of their ends."""
    product = Product(network, property_)
    exploration = LocalRuns(product, product.initial, None, sharing=(workers, 0)).exploration
    while not exploration.complete:
        exploration.advance(100)
    exploration.close()
    assert len(exploration.own) == workers
    explored = explored_part(exploration)
    graph = explored.graph
    sources = np.array([source_of(graph, edge) for edge in range(graph.targets.size)], np.int64)
    ends = [explored.states(nodes) for nodes in (sources, graph.targets.astype(np.int64))]
    rows = [[exploration.row(int(state)).tobytes() for state in states] for states in ends]
    found = list(zip(*rows, graph.entries.tolist(), strict=True))
    return sorted(found)


@pytest.mark.parametrize("workers", [2, 3])
@settings(patient, max_examples=60)
@given(data=st.data())
def test_several_workers_and_the_oracle_agree(workers: int, data: st.DataObject) -> None:
    def search(network: Network, property_: Property) -> Result:
        with mock.patch.object(driver, "WIDE", 1), mock.patch.object(threads, "LEAST", 1):
            return check(network, [property_], Limits(workers=workers))[0]

    network = data.draw(dense_networks())
    compare(network, data.draw(properties(network)), data.draw(looks), search)


def partly_explored(property_: Property, network: Network) -> LocalRuns:
    """Runs of which two workers have explored a part that violates the property."""
    product = Product(network, property_)
    runs = LocalRuns(product, product.initial, None, sharing=(2, 0))
    while runs.exploration.state_count < 1500:
        runs.exploration.advance(20)
    assert len(runs.exploration.own) == 2 and not runs.exploration.complete
    return runs


@pytest.mark.usefixtures("shares_everything")
def test_a_look_goes_on_beside_the_exploration(monkeypatch: pytest.MonkeyPatch) -> None:
    network = wheels()
    property_ = network.properties[2]
    runs = partly_explored(property_, network)
    may_end, find = threading.Event(), liveness.find_fair

    def find_late(*arguments: object) -> object:
        assert may_end.wait(60)
        return find(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(liveness, "find_fair", find_late)
    assert runs.look(False) is None
    before = runs.exploration.state_count
    while runs.exploration.state_count == before:
        runs.exploration.advance(20)
        assert runs.notice() is None
    may_end.set()
    violated = runs.look(False)
    assert violated is not None and violated.trace is not None
    assert breaks(network, property_, violated.trace)


@pytest.mark.usefixtures("shares_everything")
def test_a_look_is_waited_for_where_memory_is_short() -> None:
    network = wheels()
    runs = partly_explored(network.properties[2], network)
    assert runs.look(False) is None
    runs.exploration.budget = 0
    assert isinstance(runs.notice(), Violated)
    assert runs.notice() is None


def test_one_worker_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    begin = liveness.begin

    def note(*arguments: object) -> object:
        asked.append((arguments[3], arguments[5]))
        return begin(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(liveness, "begin", note)
    monkeypatch.setattr(driver, "count_cores", lambda: 3)
    network = wheels()
    for limits in (Limits(), Limits(workers=2)):
        check(network, network.properties[2:3], limits)
    assert asked == [(3, driver.SHARED_FROM), (2, 0)]
