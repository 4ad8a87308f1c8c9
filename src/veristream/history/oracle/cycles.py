"""Cycles of committed transactions: `G1c`, which violates, and `G0`, which is noted."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from veristream.history.events import Event, Operation
from veristream.history.oracle.facts import (
    Facts,
    Fate,
    Message,
    Transaction,
    chosen,
    first,
    transaction_of,
)
from veristream.history.oracle.found import Found
from veristream.history.verdicts import Anomaly

Edge = tuple[Transaction, Transaction]


@dataclass(slots=True)
class _Graph:
    """The edges between transactions.

    A *ww* edge has the two events that give the offsets, wherever it is; a *wr* edge has the receipts.
    """

    ww: dict[Edge, list[tuple[tuple[int, int, int], Event, Event]]] = field(default_factory=dict)
    wr: dict[Edge, list[Event]] = field(default_factory=dict)

    def after(self, node: Transaction) -> list[Transaction]:
        """Returns the neighbours that edges of a node lead to, the lowest first."""
        return sorted({to for source, to in (*self.ww, *self.wr) if source == node})

    def reached(self, node: Transaction) -> dict[Transaction, Transaction]:
        """Returns all nodes that paths lead to, with the one before each in a breadth-first search."""
        parents: dict[Transaction, Transaction] = {}
        queue = [node]
        for current in queue:
            for neighbour in self.after(current):
                if neighbour not in parents:
                    parents[neighbour] = current
                    queue.append(neighbour)
        return parents


def look(facts: Facts, found: Found) -> None:
    """Looks for `G1c`, and notes `G0`."""
    writers = _writers(facts)
    graph = _Graph()
    _add_ww(facts, graph, writers)
    _add_wr(facts, graph, writers)
    nodes = sorted({node for edge in (*graph.ww, *graph.wr) for node in edge})
    reached = {node: graph.reached(node) for node in nodes}
    for node in nodes:
        component = [each for each in nodes if each in reached[node] and node in reached[each]]
        if not component or node != component[0]:
            continue
        inside = [edge for edge in sorted(graph.wr) if edge[0] in component and edge[1] in component]
        if not inside:
            found.notes["G0"] += 1
            continue
        anomaly = Anomaly("G1c", process=node.process, transaction=node.number)
        found.add(anomaly, _cycle_events(facts, graph, inside[0]))


def _writers(facts: Facts) -> dict[Message, tuple[Transaction, Event | None]]:
    """Returns the committed transaction of each message, and the event that gives its offset."""
    writers: dict[Message, tuple[Transaction, Event | None]] = {}
    for message in facts.sends:
        committed = [
            event
            for event in facts.acknowledgements(message)
            if (transaction := transaction_of(event)) and facts.fate(transaction) is Fate.COMMITTED
        ]
        if facts.is_log(message) and committed:
            sent = chosen(committed)
            writer = Transaction(sent.process, sent.transaction)
            writers[message] = (writer, facts.place_of(message, committed))
    return writers


def _add_ww(facts: Facts, graph: _Graph, writers: dict[Message, tuple[Transaction, Event | None]]) -> None:
    at: dict[tuple[int, int, int], tuple[Transaction, Event]] = {}
    for message in sorted(writers):
        writer, event = writers[message]
        if event is not None:
            at.setdefault((message.stream, message.partition, event.offset), (writer, event))
    places = sorted(at)
    for lower, higher in pairwise(places):
        (source, one), (target, other) = at[lower], at[higher]
        if lower[:2] == higher[:2] and source != target:
            graph.ww.setdefault((source, target), []).append((lower, one, other))


def _add_wr(facts: Facts, graph: _Graph, writers: dict[Message, tuple[Transaction, Event | None]]) -> None:
    for begin in _first_by_index(list(facts.of(Operation.BEGIN))):
        reader = Transaction(begin.process, begin.transaction)
        if facts.fate(reader) is not Fate.COMMITTED:
            continue
        (end,) = _first_by_index(
            [event for event in facts.ok(Operation.END_COMMIT) if transaction_of(event) == reader]
        )
        for message, (writer, _) in writers.items():
            for receipt in facts.receipts.get(message, []):
                inside = receipt.process == reader.process and begin.index < receipt.index < end.index
                if inside and writer != reader:
                    graph.wr.setdefault((writer, reader), []).append(receipt)


def _first_by_index(events: list[Event]) -> list[Event]:
    """Returns the first event of each transaction by index."""
    firsts: dict[Transaction, Event] = {}
    for event in events:
        if transaction := transaction_of(event):
            firsts.setdefault(transaction, event)
    return list(firsts.values())


def _cycle_events(facts: Facts, graph: _Graph, edge: Edge) -> list[Event]:
    """Returns the events that show the cycle of a *wr* edge and the shortest path back."""
    source, target = edge
    parents = graph.reached(target)
    path = [source]
    while path[-1] != target:
        path.append(parents[path[-1]])
    cycle = [source, *reversed(path)]
    events = [facts.first_end(each, Operation.END_COMMIT) for each in path]
    for step in pairwise(cycle):
        if step in graph.wr:
            events.append(first(graph.wr[step]))
        else:
            _, one, other = min(graph.ww[step], key=lambda each: each[0])
            events += [one, other]
    return events
