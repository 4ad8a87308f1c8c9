"""Cycles of committed transactions: the edges that a bucket has, and the components of all of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veristream.errors import EnvironmentFailure
from veristream.history.checks.transactions.keys import Bools, Longs, starts_of
from veristream.history.checks.transactions.ledger import COMMITTED, Ledger
from veristream.history.checks.transactions.strong import Graph, components_of
from veristream.history.checks.transactions.traced import Traced
from veristream.history.checks.transactions.whole import acknowledged
from veristream.history.events import NONE, Event
from veristream.history.witnesses import WITNESSES, order_of

EDGES_MAX: Final = 100_000_000
"""How many edges one task looks at; it needs about 60 bytes for each."""

Step = tuple[int, int, bool]
"""An edge on a cycle: from, to, and whether it is a *wr* edge."""


@dataclass(frozen=True, slots=True)
class Edges:
    """Different edges between transactions, ordered by both; `reads` says which are *wr* edges."""

    source: Longs
    target: Longs
    reads: Bools

    def select(self, which: slice) -> Edges:
        """Returns some of the edges."""
        return Edges(self.source[which], self.target[which], self.reads[which])


@dataclass(frozen=True, slots=True)
class Cycles:
    """How many components have a *wr* edge and how many have none, and a cycle in the first ones.

    A cycle is told with the smallest transaction of its component.
    """

    reading: int
    writing: int
    first: tuple[tuple[int, tuple[Step, ...]], ...]


@dataclass(frozen=True, slots=True)
class Written:
    """The messages of committed transactions that have an offset, ordered by partition and offset.

    `row` is the event that gives it: one of the sends, or of the receipts if it is from `sends` on.
    `writer` is the transaction of every message of `Traced`, -1 if it has none.
    """

    place: Longs
    offset: Longs
    transaction: Longs
    row: Longs
    writer: Longs


def find_written(traced: Traced, ledger: Ledger) -> Written:
    """Finds the transaction and the offset of each message."""
    sends, receipts = traced.sends, traced.receipts
    rows = acknowledged(traced, ledger)
    keys = (sends["index"], sends["process"], sends["offset"] == NONE, sends["message"])
    rows = rows[np.lexsort(tuple(key[rows] for key in keys))]
    rows = rows[starts_of(sends["message"][rows])]
    message, offset = sends["message"][rows], sends["offset"][rows].copy()
    writer = np.full(traced.count, -1, np.int64)
    writer[message] = sends["transaction"][rows]
    order = np.lexsort([receipts[name] for name in ("index", "process", "time_ns", "offset", "message")])
    order = order[starts_of(receipts["message"][order])]
    lowest = np.full(traced.count, -1, np.int64)
    lowest[receipts["message"][order]] = order
    lacking = offset == NONE
    received = lowest[message]
    taken = lacking & (received >= 0)
    offset[taken] = receipts["offset"][received[taken]]
    row = np.where(lacking, received + sends["message"].size, rows)
    some = np.flatnonzero(~lacking | taken)
    place = traced.place[message[some]]
    order = np.lexsort((message[some], offset[some], place))
    some, place = some[order], place[order]
    starts = starts_of(place, offset[some])
    some, place = some[starts], place[starts]
    return Written(place, offset[some], writer[message[some]], row[some], writer)


def find_edges(traced: Traced, ledger: Ledger) -> Edges:
    """Returns the edges that a bucket shows."""
    written = find_written(traced, ledger)
    near = _neighbours(written)
    _, writer, reader = _readings(traced, written, ledger)
    source = np.concatenate([written.transaction[near], writer])
    target = np.concatenate([written.transaction[near + 1], reader])
    reads = np.arange(source.size) >= near.size
    return join_edges([Edges(source, target, reads)])


def _neighbours(written: Written) -> Longs:
    """Returns the messages that are followed in their partition by one of another transaction."""
    same_place = written.place[1:] == written.place[:-1]
    return np.flatnonzero(same_place & (written.transaction[1:] != written.transaction[:-1]))


def _readings(traced: Traced, written: Written, ledger: Ledger) -> tuple[Longs, Longs, Longs]:
    """Returns receipts within a transaction of messages of another one: their rows, and both."""
    receipts = traced.receipts
    writer = written.writer[receipts["message"]]
    rows = np.flatnonzero(writer >= 0)
    spans = _Spans(ledger)
    found: list[tuple[Longs, Longs]] = list(
        spans.find(receipts["process"][rows].astype(np.int64), receipts["index"][rows])
    )
    place = np.concatenate([each for each, _ in found]) if found else np.empty(0, np.int64)
    reader = np.concatenate([each for _, each in found]) if found else np.empty(0, np.int64)
    row = rows[place]
    differ = writer[row] != reader
    return row[differ], writer[row][differ], reader[differ]


class _Spans:
    """The committed transactions of each process, from their first `BEGIN` to their first OK commit."""

    def __init__(self, ledger: Ledger) -> None:
        some = np.flatnonzero(
            (ledger.fate == COMMITTED) & (ledger.begin >= 0) & (ledger.begin < ledger.committed)
        )
        order = np.lexsort((ledger.begin[some], ledger.process[some]))
        self._transaction = some[order]
        self._process = ledger.process[self._transaction]
        self._begin, self._end = ledger.begin[self._transaction], ledger.committed[self._transaction]
        processes = np.arange(int(self._process.max(initial=-1)) + 2)
        self._first = np.searchsorted(self._process, processes)
        latest = [
            np.maximum.accumulate(each) for each in np.split(self._end, self._first[1:-1]) if each.size
        ]
        self._latest = np.concatenate(latest) if latest else self._end

    def find(self, process: Longs, index: Longs) -> Iterator[tuple[Longs, Longs]]:
        """Yields rows and transactions of their processes that are under way at their indices."""
        known = np.flatnonzero(process < self._first.size - 1)
        which = [
            known[np.flatnonzero(process[known] == each)] for each in np.unique(process[known]).tolist()
        ]
        for rows in which:
            low, high = self._first[process[rows[0]]], self._first[process[rows[0]] + 1]
            at = np.searchsorted(self._begin[low:high], index[rows]) + low - 1  # begun before the index
            inside = at >= low
            rows, at = rows[inside], at[inside]
            while rows.size:
                under_way = self._end[at] > index[rows]
                yield rows[under_way], self._transaction[at[under_way]]
                more = (self._latest[at] > index[rows]) & (at > low)
                rows, at = rows[more], at[more] - 1


def join_edges(parts: list[Edges]) -> Edges:
    """Returns all edges of the parts, each once; an edge that is both is a *wr* edge."""
    source, target, reads = (
        np.concatenate([getattr(part, name) for part in parts]) for name in Edges.__slots__
    )
    order = np.lexsort((~reads, target, source))
    source, target, reads = source[order], target[order], reads[order]
    starts = starts_of(source, target)
    return Edges(source[starts], target[starts], reads[starts])


def judge_edges(parts: list[Edges], edges_max: int = EDGES_MAX) -> Cycles:
    """Finds the components of the whole graph."""
    count = sum(part.source.size for part in parts)
    if count > edges_max:
        raise EnvironmentFailure(
            f"the graph of transactions has {count:,} edges, and one task looks at {edges_max:,} at most",
            hint="audit a shorter recording, or leave out `transactions are seen whole`",
        )
    edges = join_edges(parts)
    nodes, ends = np.unique(np.concatenate([edges.source, edges.target]), return_inverse=True)
    source, target = ends[: edges.source.size], ends[edges.source.size :].astype(np.int32)
    graph = Graph(np.searchsorted(source, np.arange(nodes.size + 1)), target)
    component, components = components_of(graph)
    sizes = np.bincount(component, minlength=components)
    inside = component[source] == component[target]
    reading = np.bincount(component[source[inside & edges.reads]], minlength=components) > 0
    smallest = np.full(components, nodes.size)
    np.minimum.at(smallest, component, np.arange(nodes.size))
    first = np.sort(smallest[reading])[:WITNESSES].tolist()
    steps = {
        (int(nodes[source[edge]]), int(nodes[target[edge]])): True
        for edge in np.flatnonzero(inside & edges.reads & np.isin(component[source], component[first]))
    }
    told = []
    for node in first:
        within = inside & edges.reads & (component[source] == component[node])
        edge = int(np.flatnonzero(within)[0])  # edges are in order
        path = _cycle(graph, component, int(source[edge]), int(target[edge]))
        named = [int(nodes[each]) for each in path]
        cycle = zip(named, [*named[1:], named[0]], strict=True)
        told.append((int(nodes[node]), tuple((one, two, (one, two) in steps) for one, two in cycle)))
    return Cycles(int(reading.sum()), int(((sizes > 1) & ~reading).sum()), tuple(told))


def _cycle(graph: Graph, component: NDArray[np.int32], source: int, target: int) -> list[int]:
    """Returns the nodes of the shortest cycle with an edge, from its source on."""
    parents = {target: source}
    queue = deque([target])
    while queue:
        node = queue.popleft()
        if node == source:
            break
        for near in graph.to[graph.first[node] : graph.first[node + 1]].tolist():
            if near not in parents and component[near] == component[source]:
                parents[near] = node
                queue.append(near)
    path = [source]
    while (parent := parents[path[-1]]) != source:
        path.append(parent)
    return [source, *reversed(path[1:])]


@dataclass(frozen=True, slots=True)
class Shown:
    """What a bucket has of a step: a key, the lowest of which is told, and the events."""

    key: tuple[int, ...]
    events: tuple[Event, ...]


def show_step(traced: Traced, ledger: Ledger, step: Step) -> Shown | None:
    """Returns what shows a step of a cycle in a bucket, if anything does."""
    source, target, is_read = step
    written = find_written(traced, ledger)
    if is_read:
        row, writer, reader = _readings(traced, written, ledger)
        row = row[(writer == source) & (reader == target)]
        if not row.size:
            return None
        event = traced.first(traced.receipts, row)
        return Shown(order_of(event), (event,))
    near = _neighbours(written)
    near = near[(written.transaction[near] == source) & (written.transaction[near + 1] == target)]
    if not near.size:
        return None
    at = int(near[0])
    place = int(written.place[at])
    key = (*(int(traced.places[name][place]) for name in ("stream", "partition")), int(written.offset[at]))
    return Shown(key, tuple(_giver(traced, int(written.row[each])) for each in (at, at + 1)))


def _giver(traced: Traced, row: int) -> Event:
    sends = traced.sends["row"].size
    rows = traced.sends["row"] if row < sends else traced.receipts["row"]
    return traced.events([int(rows[row if row < sends else row - sends])])[0]
