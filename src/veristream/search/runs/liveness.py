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
from typing import Protocol, TypeVar

import numpy as np

from veristream.ir.network import Network
from veristream.ir.property import Fairness, Property, kind_of
from veristream.ir.state import State
from veristream.kernel.layout import Row
from veristream.search.limits import Limits, Report
from veristream.search.memory import OutOfMemoryError
from veristream.search.reach import expand as native
from veristream.search.reach.explore import Exploration, Plan, begin, sharing_of
from veristream.search.runs.explored import Explored, explored_part
from veristream.search.runs.fairness import FairComponent, System, find_fair
from veristream.search.runs.graph import NONE, source_of
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
    runs = LocalRuns(product, product.initial, limits.memory_max_mib, sharing=sharing_of(limits))
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
    try:
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
        violated = look(True)
    except OutOfMemoryError:
        return Unknown(session.out_of_memory)
    return violated if violated is not None else Holds(vacuous=product.vacuity(exploration.seen))


class LocalRuns:
    """The runs from a state of the product, explored in this process.

    `prefix` leads from the initial state to that state.
    """

    def __init__(
        self,
        product: Product,
        start: Row,
        memory_max_mib: int | None,
        prefix: Sequence[Edge] = (),
        sharing: tuple[int, int] = (1, 0),
    ) -> None:
        self.product, self.prefix = product, list(prefix)
        # An accepting cycle stays among recurrent states, so the edges of others are not needed.
        plan = Plan(observes=True, keeps_edges=product.automaton.recurrent)
        self.exploration: Exploration = begin(
            product.code, start, plan, sharing[0], memory_max_mib, sharing[1]
        )

    def look(self) -> Violated | None:
        """A violating run in the explored part, if there is one. Raises OutOfMemoryError."""
        product, explored = self.product, explored_part(self.exploration)
        graph = explored.graph
        fair = find_fair(graph, product.all_marks, product.units, self._system(explored))
        return None if fair is None else product.violated(self._lasso(explored, fair))

    def search(self) -> Violated | None:
        """A violating run; None once everything is explored. Raises OutOfMemoryError."""
        exploration = self.exploration
        while not exploration.complete:
            exploration.advance(max(NEAR, exploration.state_count))
            violated = self.look()
            if violated is not None:
                return violated
        return None

    def _system(self, explored: Explored) -> System:
        memory, width = self.exploration.memory, self.exploration.word_count
        successors, workers = self.product.kernel.successors, len(self.exploration.own)
        rows = memory.rows.address
        system = System(successors, rows, width, places=explored.states, workers=workers)
        if self.product.property.fairness is not Fairness.STRONG_GLOBAL:
            return system
        return replace(system, letters=self.product.letters(memory.rows.address), words=memory.rows.words)

    def _edge(self, explored: Explored, edge: int, number: int | None = None) -> Edge:
        graph = explored.graph
        nodes = np.array([source_of(graph, edge), graph.targets[edge]], np.int64)
        before, after = (self.exploration.row(int(state)) for state in explored.states(nodes))
        return self.product.edge(before, after, int(graph.entries[edge]), number)

    def _lasso(self, explored: Explored, fair: FairComponent) -> Lasso:
        entry, graph = int(fair.nodes[0]), explored.graph
        path = self.exploration.path(int(explored.states(fair.nodes[:1])[0]))
        stem = self.product.edges_along([self.exploration.row(state) for state in path])
        loop = loop_edges(graph, fair, self.product.all_marks, self.product.units, entry)
        alike = self._alike(explored, fair)
        return Lasso(
            self.prefix + stem,
            [self._edge(explored, edge, alike.get(edge)) for edge in loop],
            fair.step_count,
        )

    def _alike(self, explored: Explored, fair: FairComponent) -> dict[int, int]:
        """For each edge whose step a fair run must take: how many steps before its own have the same states
        and action, so that the replay takes each of them and not one for all."""
        if fair.step_of is None or fair.step_count > STEPS_SHOWN:
            return {}
        inner = [int(edge) for edge in np.nonzero(fair.step_of != NONE)[0]]
        groups: dict[tuple[State, State, int], set[int]] = {}
        kinds = {}
        for number in inner:
            edge = self._edge(explored, number)
            kinds[number] = (edge.before, edge.after, edge.action)
            groups.setdefault(kinds[number], set()).add(int(fair.step_of[number]))
        return {
            number: sum(other < fair.step_of[number] for other in groups[kind])
            for number, kind in kinds.items()
        }
