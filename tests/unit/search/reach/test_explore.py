"""The exploration itself: growing buffers and tables, one worker and two, exact counts."""

from __future__ import annotations

import numpy as np
import pytest

from veristream.ir.network import Network
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.text.read import read_network
from veristream.kernel.layout import decode, encode
from veristream.kernel.load import Kernel, load_kernel
from veristream.kernel.watch import Watch
from veristream.search.reach import explore as driver
from veristream.search.reach.expand import DEADLOCK, DEADLOCK_END, Code
from veristream.search.reach.explore import Exploration, Plan, begin
from veristream.source import Source


def start(text: str, workers: int = 1, plan: Plan | None = None) -> tuple[Network, Kernel, Exploration]:
    network = read_network(Source("test.net", text))
    kernel = load_kernel(network, Watch())
    code = Code(kernel.successors, 0, kernel.measure, kernel.terminated)
    initial = encode(kernel.layout, network, Interpreter(network).initial())
    return network, kernel, begin(code, initial, plan or Plan(), workers, memory_max_mib=256)


def finish(exploration: Exploration) -> None:
    while not exploration.complete:
        exploration.advance()
    exploration.close()


FAN = """
network fan
var n: 0..9999 = 0
component C { location a initial  location b final
  edge a -> b { select k: 0..9999 action pick(k) do { n := k; } } }
"""

GRID = """
network grid
var x: 0..299 = 0
var y: 0..299 = 0
component X { location a initial  edge a -> a { when x < 299 do { x := x + 1; } } }
component Y { location a initial  edge a -> a { when y < 299 do { y := y + 1; } } }
"""

CHAIN = """
network chain
var n: 0..50000 = 0
component C { location a initial  edge a -> a { when n < 50000 do { n := n + 1; } } }
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_more_successors_than_the_buffer_holds(workers: int) -> None:
    _, _, exploration = start(FAN, workers)
    finish(exploration)
    assert exploration.state_count == 10_001
    assert exploration.counts.transitions == 10_000
    assert exploration.counts.depth == 1


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_counts_do_not_depend_on_the_workers(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "WIDE", 8)
    _, _, exploration = start(GRID, workers)
    finish(exploration)
    assert exploration.state_count == 300 * 300
    assert exploration.counts.transitions == 2 * 300 * 299
    assert exploration.counts.depth == 598


def test_an_exploration_continues_after_it_was_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "WIDE", 8)
    _, _, exploration = start(GRID, 2)
    while len(exploration.own) < 2 or exploration.state_count < 10_000:
        exploration.advance(1000)
    exploration.close()
    finish(exploration)
    assert exploration.state_count == 300 * 300


def test_a_long_chain_has_a_long_path() -> None:
    network, kernel, exploration = start(CHAIN, plan=Plan(ends=DEADLOCK_END))
    hits = []
    while not exploration.complete:
        exploration.advance(quantum=7000)
        hits += exploration.hits
        for hit in exploration.hits:
            exploration.unwatch(hit.kind)
    assert [hit.kind for hit in hits] == [DEADLOCK]
    path = exploration.path(hits[0].source)
    values = [decode(kernel.layout, network, exploration.row(i)).values[0] for i in path]
    assert values == list(range(50_001))
    assert exploration.counts.depth == 50_000


def test_edges_are_kept_in_compressed_rows() -> None:
    _, _, exploration = start(GRID.replace("299", "9"), plan=Plan(keeps_edges=(1,) * 256))
    finish(exploration)
    edges = exploration.memory.edges
    assert edges is not None
    first, targets, entries = edges.firsts.words, edges.targets.words, edges.entries.words
    assert exploration.expanded == 100 and exploration.edge_count == 180
    degrees = np.diff(np.append(first[:100], exploration.edge_count))
    assert sorted(degrees.tolist()) == [0] + [1] * 18 + [2] * 81
    assert set(targets.view(np.uint32)[:180].tolist()) == set(range(1, 100))
    assert set((entries[:180] & 0xFFFFFFFF).tolist()) == {0, 1}
