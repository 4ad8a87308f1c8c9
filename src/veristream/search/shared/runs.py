"""Properties of infinite runs, with the product shared among workers.

Workers explore the product in parts, with its edges. Whenever it has doubled, and at the end, the parts
remove the states that no fair accepting run can stay in (see `elimination`). If none is left, no run
violates the property. Otherwise the driver searches for a run from a state that is left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

import numpy as np

from veristream.ir.network import Network
from veristream.ir.property import Fairness, Property, TemporalUnary, kind_of
from veristream.ir.text.printer import print_network
from veristream.kernel.watch import Watch
from veristream.search.limits import Limits, Report
from veristream.search.memory import MIB, OutOfMemoryError, default_budget_mib
from veristream.search.reach.explore import Exploration
from veristream.search.reach.partition import share as share_out
from veristream.search.runs.buchi import translate
from veristream.search.runs.fairness import System, Words, find_fair
from veristream.search.runs.liveness import LocalRuns, decide
from veristream.search.runs.product import Product, formula_of, watch_of
from veristream.search.session import Session
from veristream.search.shared.assignment import Assignment, Opened, digest_of, only_with
from veristream.search.shared.exploration import CrewExploration, global_index, split_index
from veristream.search.shared.messages import (
    BeginLook,
    Count,
    CutReached,
    CutStruck,
    CutUnreached,
    Done,
    EnabledUnits,
    EndLook,
    FindEnabled,
    FindLeft,
    FirstLeft,
    KeepLeft,
    LookReport,
    ReachMark,
    ReachState,
    ReachUnit,
    RestoreLeft,
    StateRef,
)
from veristream.search.shared.product_part import ProductPart
from veristream.search.shared.remainder import EDGE_BYTES, STATE_BYTES, gather
from veristream.search.shared.threshold import is_large, limits_here
from veristream.verdict import Result, Violated

Share = Callable[[Callable[[int], Assignment]], AbstractContextManager[CrewExploration]]
"""Lets workers explore an assignment, made for a number of parts, from the initial state on."""

TOO_LARGE = "some run violates it, but the states that it stays in do not fit into the driver's memory"
PIECE = 1 << 16


def make_runs_assignment(
    network: Network,
    property_: Property,
    part_count: int,
    memory_max_mib: int | None,
    spill_folder: str | None = None,
) -> Assignment:
    """Returns the assignment for one temporal property."""
    mine = only_with(network, [property_])
    digest = digest_of(mine, _watch(mine, property_))
    return Assignment(_open_product, print_network(mine), digest, part_count, memory_max_mib, spill_folder)


def _watch(network: Network, property_: Property) -> Watch:
    return watch_of(translate(TemporalUnary("!", formula_of(property_))), property_)


def _open_product(assignment: Assignment, number: int) -> Opened:
    """Returns the numbered part of a product, with its kernel compiled or loaded."""
    network = assignment.network(lambda read: _watch(read, read.properties[0]))
    product = Product(network, network.properties[0])
    part = ProductPart(
        product, number, assignment.part_count, assignment.memory_max_mib, assignment.spill_folder
    )
    return Opened(part, product.initial, product.kernel)


def check_shared_runs(
    network: Network,
    property_: Property,
    limits: Limits,
    report: Report,
    share: Share,
    start_states: int | None,
    spill_folder: str | None = None,
) -> Result:
    """Checks a temporal property; workers share the exploration once it is large."""
    started = time.monotonic()
    product = Product(network, property_)
    kind = kind_of(property_.claim)
    if start_states != 0:
        runs = LocalRuns(product, product.initial, limits.memory_max_mib)
        few = limits_here(limits, start_states)
        session = Session(runs.exploration, few, report, property_.name, started)
        verdict = decide(product, session, lambda _: runs.look())
        if not is_large(session, limits, start_states):
            return Result(property_.name, kind, verdict, session.effort())

    def assignment(part_count: int) -> Assignment:
        return make_runs_assignment(network, property_, part_count, limits.memory_max_mib, spill_folder)

    with share(assignment) as shared:
        sharing = Session(shared, limits, report, property_.name, started)
        look = SharedLook(product, shared, limits.memory_max_mib).look
        verdict = decide(product, sharing, look)
        return Result(property_.name, kind, verdict, sharing.effort())


class SharedLook:
    """The driver's side of looks for a run that violates the property."""

    def __init__(self, product: Product, shared: CrewExploration, memory_max_mib: int | None) -> None:
        self.product, self.shared, self.crew = product, shared, shared.crew
        self.memory_max_mib = memory_max_mib
        self.budget = MIB * (memory_max_mib or default_budget_mib())
        self.is_of_steps = product.property.fairness is Fairness.STRONG_GLOBAL
        self.left = self.edges = 0

    def look(self, complete: bool) -> Violated | None:
        """Returns a run that violates the property, in what is explored so far."""
        if self.is_of_steps and not complete:
            return None  # fairness of single steps needs all steps, and so the complete product
        self.shared.ask_all(BeginLook(), Done)
        try:
            self._wave()
            self._settle()
            if self.left == 0:
                return None
            return self._find_here() if self._fits else self._find()
        finally:
            self.shared.ask_all(EndLook(), Done)

    def _wave(self) -> None:
        """Runs a wave to its end."""
        done = self.shared.run_level(0)
        while any(one.size for one in done):
            done = self.shared.run_level(0)
        reports = [one.report for one in done if isinstance(one.report, LookReport)]
        assert len(reports) == len(done), "all parts are in the look"
        self.left, self.edges = sum(one.left for one in reports), sum(one.edges for one in reports)

    @property
    def _fits(self) -> bool:
        """Whether what is left fits into the driver's memory."""
        each = STATE_BYTES + 8 * self.product.width
        return self.left * each + self.edges * EDGE_BYTES <= self.budget

    def _settle(self) -> None:
        """Removes states until what is left fits into the driver, or until every state that is left can
        reach every acceptance mark and every unit of fairness again and again."""
        goals: list[ReachMark | ReachUnit] = [] if self._fits else [*self._marks(), *self._units()]
        unchanged = turn = 0
        while unchanged < len(goals) and not self._fits:
            goal = goals[turn % len(goals)]
            self.shared.ask_all(goal, Done)
            self._wave()
            unit = goal.unit if isinstance(goal, ReachUnit) else None
            cut = sum(answer.states for answer in self.shared.ask_all(CutUnreached(unit), Count))
            self._wave()
            turn, unchanged = turn + 1, 0 if cut else unchanged + 1

    def _find_here(self) -> Violated | None:
        """Finds a run by the components of what is left, all of which fits into the driver."""
        gathered, product = gather(self.shared), self.product
        address = int(gathered.rows.ctypes.data)
        system = System(product.kernel.successors, address, product.width)
        if self.is_of_steps:
            system = replace(system, letters=product.letters(address), words=gathered.rows)
        fair = find_fair(gathered.graph, product.all_marks, product.units, system)
        if fair is None:
            return None
        return self._find_from(min(int(index) for index in gathered.indices[fair.nodes]))

    def _marks(self) -> Iterator[ReachMark]:
        for bit in range(self.product.automaton.acceptance_count):
            yield ReachMark(bit)

    def _units(self) -> Iterator[ReachUnit]:
        """Returns the units of fairness that are enabled somewhere; others require nothing."""
        units = self.product.units
        if not units.exist:
            return
        words = [answer.words for answer in self.shared.ask_all(FindEnabled(), EnabledUnits)]
        somewhere = np.bitwise_or.reduce(np.array(words, np.int64), axis=0)
        for unit in bits_of((units.weak | units.strong) & somewhere):
            yield ReachUnit(unit)

    def _find(self) -> Violated | None:
        """Finds a run from a state that is left; only with fairness of single steps there may be none."""
        if self.is_of_steps:
            return self._find_closed()
        try:
            found = self._search_from(self._nearest())[1]
            assert found is not None, "what is left contains a run that violates the property"
            return found
        except OutOfMemoryError:
            return self._find_from(self._innermost())

    def _find_from(self, index: int) -> Violated:
        """Finds a run that stays in the component of a state."""
        try:
            found = self._search_from(index)[1]
        except OutOfMemoryError:
            return Violated(TOO_LARGE)
        assert found is not None, "a fair component contains a run that violates the property"
        return found

    def _find_closed(self) -> Violated | None:
        """Finds a run whose recurring states are closed under all their steps. Searches all that a state
        leads to, and removes it if it contains no such run. Raises OutOfMemoryError."""
        while True:
            self.shared.ask_all(KeepLeft(), Done)
            runs, found = self._search_from(self._innermost())
            if found is not None:
                return found
            self.shared.ask_all(RestoreLeft(), Done)
            self._strike(runs.exploration)
            self.shared.ask_all(CutStruck(), Done)
            self._wave()
            self._settle()
            if self.left == 0:
                return None

    def _search_from(self, index: int) -> tuple[LocalRuns, Violated | None]:
        """Searches all that a state leads to; raises OutOfMemoryError."""
        rows = [self.shared.row(one) for one in self.shared.path(index)]
        prefix = self.product.edges_along(rows)
        runs = LocalRuns(self.product, rows[-1], self.memory_max_mib, prefix)
        return runs, runs.search()

    def _firsts(self) -> list[int]:
        """Returns the first state that is left in each part that has one."""
        firsts = [answer.index for answer in self.shared.ask_all(FindLeft(), FirstLeft)]
        return [global_index(part, first) for part, first in enumerate(firsts) if first is not None]

    def _nearest(self) -> int:
        """Returns a state that is left, near to the initial one."""
        return min(self._firsts(), key=lambda index: len(self.shared.path(index)))

    def _innermost(self) -> int:
        """Returns a state of a bottom component; removes all that was left to find it."""
        state = -1
        while firsts := self._firsts():
            state = firsts[0]
            self.shared.ask_all(ReachState(StateRef(*split_index(state))), Done)
            self._wave()
            self.shared.ask_all(CutReached(), Done)
        return state

    def _strike(self, exploration: Exploration) -> None:
        """Tells the parts which of their states the driver has explored."""
        count, width = exploration.state_count, exploration.word_count
        owners, places = np.zeros(count, np.uint16), np.zeros(count, np.uint32)
        used = np.zeros(self.crew.part_count, np.int64)
        share_out(exploration.store(), count, self.crew.part_count, owners, places, used)
        rows = exploration.memory.rows.words[: count * width].reshape(-1, width)
        for part in range(self.crew.part_count):
            mine = np.flatnonzero(owners == part)
            for begin in range(0, mine.size, PIECE):
                some = mine[begin : begin + PIECE]
                self.crew.give_states(part, some.size, rows[some].tobytes())


def bits_of(words: Words) -> list[int]:
    """Returns the numbers of the bits that are set, 63 in a word."""
    return [63 * k + bit for k, word in enumerate(words) for bit in range(63) if int(word) >> bit & 1]
