"""Liveness: properties of infinite runs, by the product with a Büchi automaton.

The automaton accepts the runs that violate the property. The product is explored breadth-first, with its
edges kept; whenever it has doubled, and at the end, its strongly connected components are searched for a
fair accepting one. A cycle in the part explored so far is a cycle of the whole, so a violation is often
found long before the product is complete.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Protocol, TypeVar

import numpy as np

from veristream.ir.network import Network
from veristream.ir.property import Fairness, Property, kind_of
from veristream.ir.state import State
from veristream.kernel.layout import Row
from veristream.search.limits import Limits, Report
from veristream.search.memory import OutOfMemoryError
from veristream.search.reach import expand as native
from veristream.search.reach.explore import Exploration, Plan, begin
from veristream.search.runs.fairness import FairComponent, System, find_fair
from veristream.search.runs.graph import NONE, Graph, source_of
from veristream.search.runs.lasso import STEPS_SHOWN, loop_edges
from veristream.search.runs.product import Edge, Lasso, Product
from veristream.search.session import Advancing, Hit, Session
from veristream.verdict import Holds, Result, Unknown, Verdict, Violated

FIRST_LOOK = 1 << 15  # states before the first search for components
NEAR = 1 << 10  # the same if it is known that there are some


def check_liveness(network: Network, property_: Property, limits: Limits, report: Report) -> Result:
    """The result of a temporal property."""
    started = time.monotonic()
    product = Product(network, property_)
    runs = LocalRuns(product, product.initial, limits.memory_max_mib)
    session = Session(runs.exploration, limits, report, property_.name, started)
    verdict = decide(product, session, lambda _: runs.look())
    return Result(property_.name, kind_of(property_.claim), verdict, session.effort())


class ExploringRuns(Advancing, Protocol):
    """An exploration of a product, local or shared."""

    @property
    def hits(self) -> list[Hit]: ...
    @property
    def seen(self) -> int: ...
    def row(self, index: int) -> Row: ...
    def path(self, index: int) -> list[int]: ...


Runs = TypeVar("Runs", bound=ExploringRuns)

Look = Callable[[bool], Violated | None]
"""Looks for a violating run in the explored part; the argument says whether that is everything."""


def decide(product: Product, session: Session[Runs], look: Look) -> Verdict:
    """Explores until a violation is found or there is nothing left to explore."""
    look_at = FIRST_LOOK
    exploration = session.exploration
    for _ in session.rounds():
        for hit in exploration.hits:
            if hit.kind in (native.FAULT, native.WATCH_FAULT):
                at = hit.source if hit.kind == native.FAULT else hit.other
                return product.failed(hit, [exploration.row(i) for i in exploration.path(at)])
        states = exploration.counts.states
        if states >= look_at and not exploration.complete:
            look_at = 2 * states
            violated = look(False)
            if violated is not None:
                return violated
    if session.stopped:
        return Unknown(session.stopped)
    try:
        violated = look(True)
    except OutOfMemoryError:
        return Unknown(session.out_of_memory)
    return violated if violated is not None else Holds(vacuous=product.vacuity(exploration.seen))


class LocalRuns:
    """The runs from a state of the product, explored in this process.

    `prefix` leads from the initial state to that state.
    """

    def __init__(
        self, product: Product, start: Row, memory_max_mib: int | None, prefix: Sequence[Edge] = ()
    ) -> None:
        self.product, self.prefix = product, list(prefix)
        # Edges are numbered in the order of their states, so there is only one worker.
        plan = Plan(observes=True, keeps_edges=True)
        self.exploration: Exploration = begin(product.code, start, plan, 1, memory_max_mib)

    def look(self) -> Violated | None:
        """A violating run in the explored part, if there is one."""
        product, graph = self.product, self._graph()
        fair = find_fair(graph, product.all_marks, product.units, self._system())
        return None if fair is None else product.violated(self._lasso(graph, fair))

    def search(self) -> Violated | None:
        """A violating run; None once everything is explored. Raises OutOfMemoryError."""
        exploration = self.exploration
        while not exploration.complete:
            exploration.advance(max(NEAR, exploration.state_count))
            violated = self.look()
            if violated is not None:
                return violated
        return None

    def _system(self) -> System:
        memory, width = self.exploration.memory, self.exploration.word_count
        system = System(self.product.kernel.successors, memory.rows.address, width)
        if self.product.property.fairness is not Fairness.STRONG_GLOBAL:
            return system
        return replace(system, letters=self.product.letters(memory.rows.address), words=memory.rows.words)

    def _graph(self) -> Graph:
        """The part of the product whose states are expanded."""
        exploration = self.exploration
        node_count = exploration.expanded
        edge_count = exploration.edge_count
        first, targets, entries = (part.words for part in exploration.memory.edges)
        first[node_count] = edge_count
        return Graph(
            first[: node_count + 1],
            targets.view(np.uint32)[:edge_count],
            entries[:edge_count],
        )

    def _edge(self, graph: Graph, edge: int, number: int | None = None) -> Edge:
        before = self.exploration.row(int(source_of(graph, edge)))
        after = self.exploration.row(int(graph.targets[edge]))
        return self.product.edge(before, after, int(graph.entries[edge]), number)

    def _lasso(self, graph: Graph, fair: FairComponent) -> Lasso:
        entry = int(fair.nodes[0])
        stem = self._stem(graph, entry)
        loop = loop_edges(graph, fair, self.product.all_marks, self.product.units, entry)
        alike = self._alike(graph, fair)
        return Lasso(
            self.prefix + [self._edge(graph, edge, alike.get(edge)) for edge in stem],
            [self._edge(graph, edge, alike.get(edge)) for edge in loop],
            fair.step_count,
        )

    def _alike(self, graph: Graph, fair: FairComponent) -> dict[int, int]:
        """For each edge whose step a fair run must take: how many steps before its own have the same states
        and action, so that the replay takes each of them and not one for all."""
        if fair.step_of is None or fair.step_count > STEPS_SHOWN:
            return {}
        inner = [int(edge) for edge in np.nonzero(fair.step_of != NONE)[0]]
        groups: dict[tuple[State, State, int], set[int]] = {}
        kinds = {}
        for number in inner:
            edge = self._edge(graph, number)
            kinds[number] = (edge.before, edge.after, edge.action)
            groups.setdefault(kinds[number], set()).add(int(fair.step_of[number]))
        return {
            number: sum(other < fair.step_of[number] for other in groups[kind])
            for number, kind in kinds.items()
        }

    def _stem(self, graph: Graph, entry: int) -> list[int]:
        """Edges of the breadth-first tree from the initial state to the entry."""
        path = self.exploration.path(entry)
        edges = []
        for source, target in pairwise(path):
            first, last = int(graph.first[source]), int(graph.first[source + 1])
            offset = int(np.nonzero(graph.targets[first:last] == target)[0][0])
            edges.append(first + offset)
        return edges
