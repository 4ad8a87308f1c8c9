"""Safety properties of untimed networks, by exploring states breadth-first, or depth-first on request.

Breadth-first, a hit that comes first comes at the least depth, so traces are shortest, unless partial-order
reduction leaves out the shortest run. Depth-first, traces are shortened, and then a small breadth-first
search looks for a shortest one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol

import numpy as np

from veristream.ir.network import Network
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.property import (
    Always,
    DeadlockFree,
    NonTerminating,
    Optimise,
    Property,
    Reachable,
    Transition,
)
from veristream.ir.state import State
from veristream.ir.symmetry import check_symmetry, real_run
from veristream.ir.text.printer import print_expr
from veristream.kernel.layout import Row, decode, encode, lay_out
from veristream.kernel.load import Kernel, load_kernel
from veristream.search.limits import Limits, Order, Report, count_cores
from veristream.search.reach import expand as native
from veristream.search.reach.batch import Batch, batches, code_of
from veristream.search.reach.compaction import begin_hashed
from veristream.search.reach.expand import Code
from veristream.search.reach.explore import SHARED_FROM, begin, begin_deep
from veristream.search.reach.shorten import shorten
from veristream.search.reduction.relations import relate, unsupported
from veristream.search.reduction.tables import Tables, tabulate
from veristream.search.safety import Best, Case, SafetyClaim, Search, Watching
from veristream.search.session import Hit, goes_deep, leaves_out, omission_of
from veristream.search.trace import action_fault, property_fault, replay
from veristream.search.vacuity import true_from_the_start, unmet_premise
from veristream.verdict import Holds, Result, Trace, Unknown, Verdict, Violated

SYMMETRY_SAMPLE = 60
"""How many states are examined for anything that tells symmetric instances apart."""

SHORTEST_WITHIN = 1 << 16
"""How many states a breadth-first search may find to shorten a trace that a depth-first one found."""


class Exploring(Watching, Protocol):
    """An exploration of states, local or shared."""

    @property
    def seen(self) -> int: ...
    def rows_to(self, index: int) -> Iterable[Row]: ...
    def unwatch(self, kind: int) -> None: ...
    def best(self, measure: int) -> tuple[int, int] | None: ...
    def count_orbits(self, orbit: int) -> int: ...


Open = Callable[[Code, Row, Batch, bool], AbstractContextManager[Exploring]]
"""Begins an exploration: the kernel's code, the initial state, what to watch, whether to use symmetry."""


def opening_locally(limits: Limits, tables: Tables | None = None) -> Open:
    """Explorations in this process: as the limits ask for it, or with partial-order reduction if its tables
    are given."""

    @contextmanager
    def open_(code: Code, initial: Row, batch: Batch, reduced: bool) -> Iterator[Exploring]:
        if limits.order is Order.DEPTH:
            yield begin_deep(code, initial, batch.plan(), limits.memory_max_mib)
            return
        if limits.hash_bits is not None:
            yield begin_hashed(code, initial, batch.plan(), limits.hash_bits, limits.memory_max_mib)
            return
        workers, shared_from = workers_of(limits), 0 if limits.workers else SHARED_FROM
        if tables is not None:
            code = code._replace(reduction=tables.address)
        plan = replace(batch.plan(), compact=True)
        exploration = begin(code, initial, plan, workers, limits.memory_max_mib, shared_from)
        exploration.tables = tables
        yield exploration

    return open_


def workers_of(limits: Limits) -> int:
    """How many threads search."""
    return limits.workers or count_cores()


def check_safety(
    network: Network,
    properties: Sequence[Property],
    limits: Limits,
    report: Report,
    open_: Open | None = None,
) -> dict[str, Result]:
    """The results of safety properties that fit into one batch, by name."""
    if limits.order is Order.DEPTH and open_ is None:
        return _check_deep(network, properties, limits, report)
    (batch,) = batches(properties)
    tables = None
    if limits.reduction and open_ is None and allows_reduction(network, batch, limits):
        relations = relate(network, [*batch.states, *batch.premises])
        tables = tabulate(relations, lay_out(network), workers_of(limits))
    found = _search(network, batch, (limits, report), open_ or opening_locally(limits, tables))
    again = [] if tables is None else _to_repeat(properties, found, limits)
    if again:
        found |= check_safety(network, again, replace(limits, reduction=False), report)
    return found


def _search(
    network: Network, batch: Batch, bounds: tuple[Limits, Report], open_: Open
) -> dict[str, Result]:
    with opened(network, batch, bounds, open_) as search:
        search.run()
        return search.results()


def _check_deep(
    network: Network, properties: Sequence[Property], limits: Limits, report: Report
) -> dict[str, Result]:
    """Searches depth-first, then breadth-first for what has a trace that might not be shortest: within few
    states, unless the limits ask for a shortest trace.

    All properties are searched for again, so that the kernel is the same."""
    (batch,) = batches(properties)
    found = _search(network, batch, (limits, report), opening_locally(limits))
    longer = _with_longer_traces(found)
    if not longer:
        return found
    limits = replace(limits, order=Order.BREADTH, workers=1, reduction=False)
    if not limits.shortest:
        limits = replace(limits, states_max=min(limits.states_max or SHORTEST_WITHIN, SHORTEST_WITHIN))
    shorter = check_safety(network, properties, limits, report)
    for name in longer:
        before, after = found[name].verdict, shorter[name].verdict
        if not isinstance(after, Unknown) or (after.fault is not None and isinstance(before, Unknown)):
            found[name] = replace(found[name], verdict=after)
    return found


def _with_longer_traces(found: dict[str, Result]) -> set[str]:
    """The properties whose trace might not be shortest, except for those that a limit left undecided."""
    names: set[str] = set()
    for name, result in found.items():
        trace = result.verdict.trace
        is_open = isinstance(result.verdict, Unknown) and result.verdict.fault is None
        if trace is not None and not trace.shortest and not is_open:
            names.add(name)
    return names


def allows_reduction(network: Network, batch: Batch, limits: Limits) -> bool:
    """Whether partial-order reduction preserves all verdicts of the batch."""
    if (
        limits.hash_bits is not None
        or unsupported(network) is not None
        or (network.symmetries and limits.symmetry)
    ):
        return False
    return not batch.actions and not batch.measures


def _to_repeat(properties: Sequence[Property], found: dict[str, Result], limits: Limits) -> list[Property]:
    """The properties to check again in full: those whose trace might not be shortest, if that matters.

    After a fault all of them: which are decided before it depends on the order of the search."""
    verdicts = {name: result.verdict for name, result in found.items()}
    if any(isinstance(one, Unknown) and one.fault is not None for one in verdicts.values()):
        return list(properties)
    longer = _with_longer_traces(found) if limits.shortest else ()
    return [one for one in properties if one.name in longer]


@contextmanager
def opened(
    network: Network, batch: Batch, bounds: tuple[Limits, Report], open_: Open
) -> Iterator[Search[Exploring]]:
    """The search for a batch, with its kernel loaded and its exploration begun."""
    started = time.monotonic()
    kernel = load_kernel(network, batch.watch())
    is_reduced = bool(network.symmetries) and bounds[0].symmetry
    if is_reduced:
        check_symmetry(network, SYMMETRY_SAMPLE)
    interpreter = Interpreter(network)
    initial = encode(kernel.layout, network, interpreter.initial())
    with open_(code_of(kernel, batch.plan(), is_reduced), initial, batch, is_reduced) as exploration:
        judge = StateJudge(network, batch, kernel, interpreter, exploration, is_reduced)
        yield Search(batch.cases, judge, exploration, bounds, started)


@dataclass(frozen=True, slots=True)
class StateJudge:
    """Says what hits in states mean; the interpreter confirms each before it becomes a verdict."""

    network: Network
    batch: Batch
    kernel: Kernel
    interpreter: Interpreter
    exploration: Exploring
    is_reduced: bool  # by symmetry

    def fault_at_start(self) -> Unknown | None:
        """None: an initial state has no conditions to evaluate."""
        return None

    def rank(self, hit: Hit) -> tuple[int, ...]:
        """By kind, of which faults are the last ones."""
        return (hit.kind,)

    def fault(self, hit: Hit) -> Unknown | None:
        """The verdict if an action, or a condition of a property, cannot be evaluated."""
        found: Unknown | None = None
        if hit.kind == native.FAULT:
            # A property of steps is evaluated with the step, and may be what fails there.
            states = self._path(hit.source)
            found = action_fault(self.interpreter, states, hit.other)
            found = found or property_fault(self.interpreter, states, self.batch.actions)
        elif hit.kind == native.WATCH_FAULT:
            conditions = (*self.batch.states, *self.batch.measures)
            found = property_fault(self.interpreter, self._path(hit.other), conditions)
        if found is not None and found.trace is not None and not self._finds_nearest:
            return replace(found, trace=replace(found.trace, shortest=False))
        return found

    @property
    def _finds_nearest(self) -> bool:
        """Whether the first hit of a kind is a nearest one, if no run is left out."""
        return not goes_deep(self.exploration) and omission_of(self.exploration) is None

    def answer(self, hit: Hit) -> int:
        """The hit's kind, which is noted no more."""
        self.exploration.unwatch(hit.kind)
        return hit.kind

    def found(self, case: Case, hit: Hit) -> Verdict:
        """The verdict with its trace, which may not be a shortest one if runs are left out, if states are
        omitted, or if the search went deep."""
        claim, is_nearest = case.claim, self._finds_nearest
        if isinstance(claim, Transition):
            states = self._path(hit.source, hit.kind)
            states.append(self._breaking_step(claim, states[-1]))
            steps = replay(self.interpreter, states)
            return Violated("the last step violates it", Trace(steps, shortest=is_nearest))
        end = hit.source if isinstance(claim, DeadlockFree | NonTerminating) else hit.other
        states = self._path(end, hit.kind)
        shortest = is_nearest and not leaves_out(self.exploration)
        trace = Trace(replay(self.interpreter, states), shortest=shortest or len(states) == 1)
        self._confirm(claim, states[-1])
        match claim:
            case Reachable():
                return Holds("", trace, true_from_the_start(self.interpreter, case.property))
            case Always():
                return Violated("the condition does not hold in the last state", trace)
            case DeadlockFree():
                return Violated("no step is possible in the last state", trace)
            case NonTerminating():
                done = self.interpreter.is_terminated(states[-1])
                return Violated("terminated" if done else "deadlocked", trace)

    def best(self, case: Case, optimise: Optimise) -> Best | None:
        """The best value so far and the run to the state that has it."""
        best = self.exploration.best(case.measure)
        if best is None:
            return None
        value, index = best
        states = self._path(index)
        assert self.interpreter.value(optimise.value, states[-1]) == value
        words = f"{optimise.direction} {print_expr(optimise.value)} = {value}"
        return Best(words, Trace(replay(self.interpreter, states)))

    def vacuity(self, case: Case) -> str | None:
        """The sentence for a premise that held in no state."""
        return unmet_premise(self.exploration.seen, self.batch.premise_bits(case))

    def unreduced_states(self) -> int | None:
        """The sizes of all orbits together."""
        return self.exploration.count_orbits(self.kernel.orbit) if self.is_reduced else None

    def _path(self, index: int, kind: int = native.HIT_COUNT) -> list[State]:
        """The states of a run to the given one; after a depth-first search, of a shorter run to a state
        that has a hit of the same kind."""
        rows = self.exploration.rows_to(index)
        if goes_deep(self.exploration):
            code = code_of(self.kernel, self.batch.plan(), self.is_reduced)
            words = np.fromiter(chain.from_iterable(rows), np.uint64).view(np.int64)
            rows = shorten(code, words.reshape(-1, self.kernel.layout.word_count), kind)
        states = [decode(self.kernel.layout, self.network, row) for row in rows]
        return list(real_run(self.network, self.interpreter, states)) if self.is_reduced else states

    def _breaking_step(self, claim: Transition, before: State) -> State:
        """The state after a step that breaks the claim."""
        for step in self.interpreter.steps(before):
            if not self.interpreter.holds_step(claim.condition, before, step.state):
                return step.state
        raise AssertionError("the interpreter knows no step that breaks the property")

    def _confirm(self, claim: SafetyClaim, state: State) -> None:
        """Asserts that the interpreter agrees."""
        match claim:
            case Reachable(condition=condition):
                agrees = self.interpreter.holds(condition, state)
            case Always(condition=condition):
                agrees = not self.interpreter.holds(condition, state)
            case DeadlockFree():
                ended = not self.interpreter.steps(state)
                agrees = ended and not self.interpreter.is_terminated(state)
            case _:
                agrees = not self.interpreter.steps(state)
        assert agrees, f"the interpreter does not agree on {claim} in {state}"
