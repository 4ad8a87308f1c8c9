"""Liveness: properties of infinite runs, by the product with a Büchi automaton.

The automaton accepts the runs that violate the property. The product is explored breadth-first, with its
edges kept; whenever it has doubled (`next_look`), and at the end, its strongly connected components are
searched for a fair accepting one. A cycle in the part explored so far is a cycle of the whole, so a
violation is often found long before the product is complete.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Protocol, TypeVar

from veristream.ir.network import Network
from veristream.ir.property import Fairness, Property, kind_of
from veristream.kernel.layout import Row
from veristream.search.limits import Limits, Report
from veristream.search.memory import OutOfMemoryError
from veristream.search.reach import expand as native
from veristream.search.reach.explore import Exploration, Plan, begin, sharing_of
from veristream.search.runs.explored import Explored, explored_part, next_look
from veristream.search.runs.fairness import FairComponent, System, find_fair
from veristream.search.runs.found import lasso_of
from veristream.search.runs.paired import NotDecidedError, PairedRuns
from veristream.search.runs.product import Edge, Product
from veristream.search.runs.reduction import allows_reduction, reduced_steps, relations_of
from veristream.search.runs.stored import Sharing
from veristream.search.session import OUT_OF_MEMORY, Advancing, Hit, Session
from veristream.verdict import Holds, Result, Unknown, Verdict, Violated

FIRST_LOOK = 1 << 15  # states before the first search for components
NEAR = 1 << 10  # the same if it is known that there are some


def check_liveness(
    network: Network, property_: Property, limits: Limits, report: Report, sharing: Sharing | None = None
) -> Result:
    """The result of a temporal property. The search begins in full. Where a reduction preserves the verdict
    and the product turns out to be large, the reduced one is searched instead. If that is not worth it, and
    other properties share the steps of the network, the product is searched on these."""
    started = time.monotonic()
    product = Product(network, property_)
    sharing = sharing or Sharing([property_])
    sharing.begin_property()
    if sharing.stored is not None:
        known = _check_stored(product, limits, report, started, sharing)
        if known is not None:
            return known
    runs = LocalRuns(product, product.initial, limits.memory_max_mib, sharing=sharing_of(limits))

    def search(states_max: int | None) -> tuple[Result, bool]:
        """The result within the limit of states, and whether that limit left it open."""
        bounds = replace(limits, states_max=states_max)
        session = Session(runs.exploration, bounds, report, property_.name, started)
        verdict = decide(product, session, runs.look, runs.notice)
        result = Result(property_.name, kind_of(property_.claim), verdict, session.effort())
        return result, session.stopped == session.out_of_states

    if limits.states_max is None or limits.states_max > FIRST_LOOK:
        result, is_large = search(FIRST_LOOK)
        if not is_large:
            return result
        other = _check_reduced(product, limits, report, started)
        other = other or _check_stored(product, limits, report, started, sharing)
        if other is not None:
            return other
    return search(limits.states_max)[0]


def _check_reduced(product: Product, limits: Limits, report: Report, started: float) -> Result | None:
    """The result with partial-order reduction; None if that does not apply, or if the full search must go
    on: after a failure, since the order of the search decides what is found before it, or for a lasso that
    is as short as its."""
    if not limits.reduction or not allows_reduction(product.network, product):
        return None
    relations = relations_of(product)
    # Where an action may fail, all states are expanded, so that a failure is found if there is one.
    steps = reduced_steps(product, relations, limits.memory_max_mib)
    runs = PairedRuns(product, steps, examines=relations.may_fault)
    result = _check_pairs(product, runs, limits, report, started)
    if result is None or (limits.shortest and isinstance(result.verdict, Violated) and runs.has_left_out):
        return None
    return result


def _check_stored(
    product: Product, limits: Limits, report: Report, started: float, sharing: Sharing
) -> Result | None:
    """The result by the steps that several properties share; None if the search without them must go on."""
    stored = sharing.stored_for(product, limits)
    if stored is None:
        return None
    result = _check_pairs(product, PairedRuns(product, stored), limits, report, started)
    if result is None or result.verdict.reason.startswith(OUT_OF_MEMORY):
        sharing.drop()
        return None
    return result


def _check_pairs(
    product: Product, runs: PairedRuns, limits: Limits, report: Report, started: float
) -> Result | None:
    """The result by an exploration of pairs; None if it does not decide the property."""
    session = Session(runs, limits, report, product.property.name, started)

    def look(_: bool) -> Violated | None:
        graph = runs.graph()
        fair = find_fair(graph, product.all_marks, product.units, System(0, 0, 0))
        return None if fair is None else product.violated(lasso_of(product, runs, graph, fair))

    try:
        verdict = decide(product, session, look)
    except NotDecidedError:
        return None
    return Result(product.property.name, kind_of(product.property.claim), verdict, session.effort())


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

Notice = Callable[[], Violated | None]
"""What a look has found that went on beside the exploration, if there is one and it has ended."""


def decide(product: Product, session: Session[Runs], look: Look, notice: Notice = lambda: None) -> Verdict:
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
            violated = notice()
            if violated is None and states >= look_at and not exploration.complete:
                look_at = next_look(states, exploration)
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

    `prefix` leads from the initial state to that state. Where several workers explore, a look at a part of
    the product goes on beside the exploration: most of a look is work for one thread. Looks begin at the
    same moments as if the exploration waited for them, so they find the same.
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
        self._beside: tuple[Explored, Future[FairComponent | None]] | None = None
        self._thread = ThreadPoolExecutor(1)  # starts none before there is work

    def look(self, is_all: bool = True) -> Violated | None:
        """A violating run in the explored part, if there is one; of a part it may be noticed later. Raises
        OutOfMemoryError."""
        violated = self._finish()
        if violated is not None:
            return violated
        explored = explored_part(self.exploration)
        if is_all or len(self.exploration.own) == 1:
            return self._violated(explored, self._find(explored, len(self.exploration.own)))
        self._beside = explored, self._thread.submit(self._find, explored, 1)
        return None

    def notice(self) -> Violated | None:
        """What the look beside the exploration has found, once it has ended. It is waited for if its copy
        of the product and the exploration do not fit into the memory."""
        if self._beside is None:
            return None
        explored, look = self._beside
        is_tight = self.exploration.byte_count + explored.byte_count > self.exploration.budget
        return self._finish() if look.done() or is_tight else None

    def _finish(self) -> Violated | None:
        """Waits for the look beside the exploration."""
        if self._beside is None:
            return None
        explored, look = self._beside
        self._beside = None
        return self._violated(explored, look.result())

    def _find(self, explored: Explored, workers: int) -> FairComponent | None:
        product = self.product
        system = replace(self._system(explored), workers=workers)
        return find_fair(explored.graph, product.all_marks, product.units, system)

    def _violated(self, explored: Explored, fair: FairComponent | None) -> Violated | None:
        if fair is None:
            return None
        lasso = lasso_of(self.product, explored, explored.graph, fair, self.prefix)
        return self.product.violated(lasso)

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
        successors, rows = self.product.kernel.successors, memory.rows.address
        system = System(successors, rows, width, places=explored.states)
        if self.product.property.fairness is not Fairness.STRONG_GLOBAL:
            return system
        return replace(system, letters=self.product.letters(memory.rows.address), words=memory.rows.words)
