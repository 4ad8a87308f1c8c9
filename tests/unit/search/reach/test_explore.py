"""The exploration itself: growing buffers and tables, one worker and two, exact counts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from veristream.ir.network import Network
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.text.read import read_network
from veristream.kernel.layout import decode, encode, used_bits
from veristream.kernel.load import Kernel, load_kernel
from veristream.kernel.watch import Watch
from veristream.search.reach import explore as driver
from veristream.search.reach import fields
from veristream.search.reach.expand import (
    DEADLOCK,
    DEADLOCK_END,
    LEVEL,
    QUANTUM,
    STOPPED,
    STRIDE,
    Code,
)
from veristream.search.reach.explore import Exploration, Plan, begin
from veristream.search.reach.storage import Memory
from veristream.search.reach.table import Table
from veristream.search.reach.visited import find_or_add, store_of
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
@pytest.mark.parametrize("compact", [False, True])
def test_counts_do_not_depend_on_the_workers(
    workers: int, compact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "WIDE", 8)
    _, _, exploration = start(GRID, workers, Plan(compact=compact))
    finish(exploration)
    assert exploration.state_count == 300 * 300
    assert exploration.counts.transitions == 2 * 300 * 299
    assert exploration.counts.depth == 598


def test_a_worker_stops_once_another_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "WIDE", 8)
    _, _, exploration = start(GRID, 2)
    while len(exploration.own) < 2 or exploration.counts.frontier < 200:
        exploration.advance(1000)
    store, control = exploration.store(), exploration.work.control
    control[STOPPED] = 0
    assert exploration._turn(store, 1, False, quantum=1) == QUANTUM
    assert control[STOPPED] == 1
    before = exploration.counts
    assert exploration._turn(store, 0, False, quantum=1 << 20) == QUANTUM
    assert exploration.counts == before
    control[STOPPED] = 0
    assert [exploration._turn(store, worker, False, quantum=1 << 20) for worker in (0, 1)] == [LEVEL] * 2
    assert control[STOPPED] == 0  # nobody has left anything of the level to others
    finish(exploration)
    assert exploration.state_count == 300 * 300


def test_an_exploration_continues_after_it_was_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "WIDE", 8)
    _, _, exploration = start(GRID, 2)
    while len(exploration.own) < 2 or exploration.state_count < 10_000:
        exploration.advance(1000)
    exploration.close()
    finish(exploration)
    assert exploration.state_count == 300 * 300


@pytest.mark.parametrize("compact", [False, True])
def test_a_long_chain_has_a_long_path(compact: bool) -> None:
    network, kernel, exploration = start(CHAIN, plan=Plan(ends=DEADLOCK_END, compact=compact))
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


WIDE_ROWS = """
network wide_rows
var a: 0..1000000000 = 0
var b: 0..1000000000 = 0
var c: 0..1000000000 = 0
var d: 0..1000000000 = 0
component A { location l initial  edge l -> l { when a < 59 do { a := a + 1; b := b + 1000003; } } }
component C { location l initial  edge l -> l { when c < 59 do { c := c + 1; d := d + 500009; } } }
component E { var e: 0..1000000000 = 0 location l initial
  edge l -> l { when e < 9 do { e := e + 1; } } }
"""


def rows_of(exploration: Exploration) -> list[tuple[int, ...]]:
    """All rows, arena by arena."""
    return [
        tuple(int(word) for word in exploration.row(arena * exploration.arena_size + number))
        for arena in range(exploration.workers)
        for number in range(int(exploration.work.counts[arena * STRIDE]))
    ]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_packed_rows_are_those_that_are_stored_as_they_are(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fields begin with few bits, so keys are made again several times on the way."""
    monkeypatch.setattr(driver, "WIDE", 8)
    monkeypatch.setattr(fields, "FIRST_BITS", 2)
    widened = []
    widen = Memory.widen
    monkeypatch.setattr(Memory, "widen", lambda *given: widened.append(widen(*given)) or widened[-1])
    _, loaded, plain = start(WIDE_ROWS)  # the code is there as long as the kernel is
    _, kernel, compact = start(WIDE_ROWS, workers, Plan(compact=True))
    assert loaded.layout == kernel.layout
    assert kernel.layout.word_count > 1
    finish(plain)
    finish(compact)
    rows = rows_of(compact)
    assert len(rows) == len(set(rows)) == 60 * 60 * 10
    assert set(rows) == set(rows_of(plain))
    assert compact.counts.transitions == plain.counts.transitions
    assert sum(widened) >= 3 and compact.memory.store().key_size < 8 * kernel.layout.word_count
    assert compact.byte_count < plain.byte_count


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("text", [GRID, WIDE_ROWS], ids=["one word", "several"])
def test_paths_found_again_are_those_along_parents(
    text: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "WIDE", 8)
    network, kernel, compact = start(text, workers, Plan(compact=True))
    _, loaded, plain = start(text)
    assert loaded.layout == kernel.layout
    finish(compact)
    finish(plain)
    interpreter = Interpreter(network)
    indices = {row: index for index, row in enumerate(rows_of(plain))}
    for index in range(0, int(compact.work.counts[0]), 1 + int(compact.work.counts[0]) // 7):
        rows = [tuple(map(int, compact.row(i))) for i in compact.path(index)]
        along_parents = [tuple(map(int, plain.row(i))) for i in plain.path(indices[rows[-1]])]
        assert len(rows) == len(along_parents)  # as short
        if workers == 1:
            assert rows == along_parents
        states = [decode(kernel.layout, network, np.array(row, np.uint64)) for row in rows]
        for before, after in pairwise(states):
            assert after in [step.state for step in interpreter.steps(before)]


def test_rows_whose_tags_are_equal_are_told_apart() -> None:
    """A slot without a bit of the fingerprint leads to the row, which decides."""
    row = np.zeros(1, np.int64)
    rows, table = np.zeros(600, np.int64), np.zeros(512, np.uint32)
    store = store_of(table.ctypes.data, 512, rows.ctypes.data, 0, 1)._replace(number_bits=32, tag_shift=32)
    for number in range(500):
        row[0] = number * number
        assert find_or_add(store, row.ctypes.data, 7, number, 0) == number
    for number in range(500):
        row[0] = number * number
        assert find_or_add(store, row.ctypes.data, 7, 599, 0) == number
    assert np.count_nonzero(table) == 500


def test_a_key_leaves_out_the_bytes_that_are_always_zero() -> None:
    network, kernel, _ = start(GRID)
    bits = used_bits(kernel.layout)
    assert bits == 18
    code = Code(kernel.successors, 0, kernel.measure, kernel.terminated, row_bits=bits)
    initial = encode(kernel.layout, network, Interpreter(network).initial())
    exploration = begin(code, initial, Plan(compact=True), 1, memory_max_mib=256)
    finish(exploration)
    assert exploration.memory.store().key_size == 3
    rows = rows_of(exploration)
    assert len(rows) == len(set(rows)) == 90_000
    assert exploration.byte_count <= 3 * 90_000 + 4 * exploration.memory.table.slot_count + 4 * 601


def test_a_table_always_has_an_empty_slot() -> None:
    table = Table()
    for count, in_flight in ((0, 2048), (5000, 2048), (300_000, 4096), (2_000_000, 1 << 20)):
        slots = table.wanted(count, in_flight)
        table.resize(slots)
        assert count <= table.limit(in_flight) and table.limit(in_flight) + in_flight < slots
