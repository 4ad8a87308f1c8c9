"""Safety: everything that one look at each reachable state, or each step, decides.

All such properties share one breadth-first search; each gets its verdict when it is known, and the
search ends when all are. What is found first is found at the least depth, so traces are shortest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from veristream.ir.expr import Expr, Unary
from veristream.ir.network import Network
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.property import (
    Always,
    DeadlockFree,
    NonTerminating,
    Property,
    Reachable,
    Transition,
    kind_of,
)
from veristream.ir.state import State
from veristream.ir.symmetry import check_symmetry, real_run
from veristream.ir.text.printer import print_expr
from veristream.ir.vacuity import antecedents
from veristream.kernel.emit import Watch
from veristream.kernel.layout import Row, decode, encode
from veristream.kernel.load import Kernel, load_kernel
from veristream.search.limits import Limits, Report
from veristream.search.reach import expand as native
from veristream.search.reach.expand import Code
from veristream.search.reach.explore import Plan, begin
from veristream.search.session import Advancing, Hit, Session
from veristream.search.trace import action_fault, property_fault, replay
from veristream.search.vacuity import true_from_the_start, unmet_premise
from veristream.verdict import Effort, Holds, Result, Trace, Unknown, Verdict, Violated

STATE_BITS, ACTION_TESTS = 62, 31
SYMMETRY_SAMPLE = 60  # states that are looked at to see whether instances can be told apart

SafetyClaim = DeadlockFree | NonTerminating | Always | Reachable | Transition


@dataclass(slots=True)
class Case:
    """A property under search: what kind of hit decides it, and its verdict once known."""

    property: Property
    claim: SafetyClaim
    kind: int  # of the hit
    measure: int = -1
    premises: list[tuple[int, Expr]] = field(default_factory=list)
    verdict: Verdict | None = None
    effort: Effort | None = None


@dataclass(slots=True)
class Batch:
    """Properties that fit into one search, and what the kernel has to watch for them."""

    cases: list[Case] = field(default_factory=list)
    states: list[Expr] = field(default_factory=list)
    actions: list[Expr] = field(default_factory=list)
    measures: list[Expr] = field(default_factory=list)
    goals: list[tuple[int, int]] = field(default_factory=list)
    premises: list[tuple[Case, Expr]] = field(default_factory=list)

    def has_room(self, property_: Property) -> bool:
        """Whether the property's propositions still fit."""
        wanted = len(self.states) + len(self.premises) + 1 + len(antecedents(property_))
        return not self.cases or (wanted <= STATE_BITS and len(self.actions) < ACTION_TESTS)

    def add(self, property_: Property) -> None:
        """Adds a safety property."""
        claim = property_.claim
        match claim:
            case DeadlockFree():
                case = Case(property_, claim, native.DEADLOCK)
            case NonTerminating():
                case = Case(property_, claim, native.TERMINAL)
            case Always(condition=condition):
                case = Case(property_, claim, len(self.states))
                self.states.append(Unary("not", condition))
            case Reachable(condition=condition):
                case = Case(property_, claim, len(self.states))
                self.states.append(condition)
                self._add_measure(case, claim)
            case Transition(condition=condition):
                case = Case(property_, claim, native.ACTION_HIT + len(self.actions))
                self.actions.append(Unary("not", condition))
            case _:
                raise AssertionError(f"{claim} is not a safety claim")
        self.cases.append(case)
        room = STATE_BITS - len(self.states) - len(self.premises)
        self.premises += [(case, premise) for premise in antecedents(property_)[:room]]

    def _add_measure(self, case: Case, claim: Reachable) -> None:
        if claim.optimise is not None:
            case.measure = len(self.measures)
            self.measures.append(claim.optimise.value)
            self.goals.append((1 << case.kind, 1 if claim.optimise.direction == "max" else -1))

    def watch(self) -> Watch:
        """What the kernel has to tell."""
        premises = tuple(premise for _, premise in self.premises)
        for position, (case, premise) in enumerate(self.premises):
            case.premises.append((len(self.states) + position, premise))
        return Watch(tuple(self.states), premises, tuple(self.actions), tuple(self.measures))

    def plan(self) -> Plan:
        """What the search has to note."""
        hits = [case.kind for case in self.cases if case.measure < 0]
        states = sum(1 << kind for kind in hits if kind < native.ACTION_HIT)
        actions = (1 << len(self.actions)) - 1
        ends = native.DEADLOCK_END * (native.DEADLOCK in hits)
        ends |= native.TERMINAL_END * (native.TERMINAL in hits)
        observes = bool(self.states or self.premises)
        return Plan(states, actions, ends, tuple(self.goals), observes)


def batches(properties: Sequence[Property]) -> list[Batch]:
    """The properties in as few searches as the kernel's masks allow."""
    result = [Batch()]
    for property_ in properties:
        if not result[-1].has_room(property_):
            result.append(Batch())
        result[-1].add(property_)
    return [batch for batch in result if batch.cases]


class Exploring(Advancing, Protocol):
    """An exploration as a search of safety properties looks at it, local or shared."""

    @property
    def hits(self) -> list[Hit]: ...
    @property
    def seen(self) -> int: ...
    def row(self, index: int) -> Row: ...
    def path(self, index: int) -> list[int]: ...
    def unwatch(self, kind: int) -> None: ...
    def best(self, measure: int) -> tuple[int, int] | None: ...
    def count_orbits(self, orbit: int) -> int: ...


Open = Callable[[Code, Row, Batch, bool], AbstractContextManager[Exploring]]
"""Begins an exploration: the kernel's code, the initial state, what to watch, whether by symmetry."""


def opening_locally(limits: Limits) -> Open:
    """Explorations in this process."""

    @contextmanager
    def open_(code: Code, initial: Row, batch: Batch, reduced: bool) -> Iterator[Exploring]:
        yield begin(code, initial, batch.plan(), limits.workers, limits.memory_max_mib)

    return open_


def check_safety(
    network: Network,
    properties: Sequence[Property],
    limits: Limits,
    report: Report,
    open_: Open | None = None,
) -> dict[str, Result]:
    """The results of safety properties, by name."""
    results: dict[str, Result] = {}
    for batch in batches(properties):
        results |= check_batch(network, batch, limits, report, open_ or opening_locally(limits))
    return results


def check_batch(
    network: Network, batch: Batch, limits: Limits, report: Report, open_: Open
) -> dict[str, Result]:
    """The results of the properties of one batch, by name."""
    search = Search(network, batch, limits, report)
    with search.opened(open_):
        search.run()
    results: dict[str, Result] = {}
    for case in batch.cases:
        assert case.verdict is not None and case.effort is not None
        kind = kind_of(case.claim)
        results[case.property.name] = Result(case.property.name, kind, case.verdict, case.effort)
    return results


def code_of(kernel: Kernel, plan: Plan, reduced: bool) -> Code:
    """The kernel's entries as a search calls them."""
    propositions = kernel.propositions if plan.observes else 0
    successors = kernel.reduced if reduced else kernel.successors
    return Code(successors, propositions, kernel.measure, kernel.terminated)


class Search:
    """One search for one batch."""

    def __init__(self, network: Network, batch: Batch, limits: Limits, report: Report) -> None:
        self.started = time.monotonic()
        self.network, self.batch, self.limits, self.report = network, batch, limits, report
        self.interpreter = Interpreter(network)
        self.kernel: Kernel = load_kernel(network, batch.watch())
        self.is_reduced = bool(network.symmetries) and limits.symmetry
        if self.is_reduced:
            check_symmetry(network, SYMMETRY_SAMPLE)
        self.session: Session[Exploring]

    @contextmanager
    def opened(self, open_: Open) -> Iterator[None]:
        """With an exploration under way."""
        code = code_of(self.kernel, self.batch.plan(), self.is_reduced)
        initial = encode(self.kernel.layout, self.network, self.interpreter.initial())
        task = ", ".join(case.property.name for case in self.batch.cases)
        with open_(code, initial, self.batch, self.is_reduced) as exploration:
            self.session = Session(exploration, self.limits, self.report, task, self.started)
            yield

    def run(self) -> None:
        """Gives every case its verdict."""
        for _ in self.session.rounds():
            for hit in sorted(self.session.exploration.hits, key=lambda hit: hit.kind):
                self._take(hit)
            if not self._open():
                self.session.exploration.close()
                return
        if self.is_reduced and not self.session.stopped:
            orbits = self.session.exploration.count_orbits(self.kernel.orbit)
            self.session.unreduced_states = orbits
        for case in self._open():
            self._decide(case, self._at_end(case))

    def _open(self) -> list[Case]:
        return [case for case in self.batch.cases if case.verdict is None]

    def _decide(self, case: Case, verdict: Verdict) -> None:
        case.verdict, case.effort = verdict, self.session.effort()

    def _state(self, index: int) -> State:
        row = self.session.exploration.row(index)
        return decode(self.kernel.layout, self.network, row)

    def _path(self, index: int) -> list[State]:
        states = [self._state(i) for i in self.session.exploration.path(index)]
        return list(real_run(self.network, self.interpreter, states)) if self.is_reduced else states

    def _take(self, hit: Hit) -> None:
        if hit.kind == native.FAULT:
            # A property of steps is evaluated with the step, and may be what fails there.
            states = self._path(hit.source)
            found = action_fault(self.interpreter, states, hit.other)
            self._fail(found or property_fault(self.interpreter, states, self.batch.actions))
        elif hit.kind == native.WATCH_FAULT:
            conditions = (*self.batch.states, *self.batch.measures)
            self._fail(property_fault(self.interpreter, self._path(hit.other), conditions))
        else:
            self.session.exploration.unwatch(hit.kind)
            for case in self._open():
                if case.kind == hit.kind and case.measure < 0:
                    self._decide(case, self._found(case, hit))

    def _fail(self, verdict: Unknown) -> None:
        """A fault of the model leaves nothing to rely on: whatever is open stays unknown."""
        for case in self._open():
            self._decide(case, verdict)

    def _found(self, case: Case, hit: Hit) -> Verdict:
        claim = case.claim
        if isinstance(claim, Transition):
            states = self._path(hit.source)
            before = states[-1]
            after = self._breaking_step(claim, before)
            states.append(after)
            steps = replay(self.interpreter, states)
            return Violated("the last step breaks it", Trace(steps, shortest=True))
        index = hit.source if isinstance(claim, DeadlockFree | NonTerminating) else hit.other
        states = self._path(index)
        trace = Trace(replay(self.interpreter, states), shortest=True)
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

    def _breaking_step(self, claim: Transition, before: State) -> State:
        """The state after a step that breaks the claim."""
        for step in self.interpreter.steps(before):
            if not self.interpreter.holds_step(claim.condition, before, step.state):
                return step.state
        raise AssertionError("the interpreter knows no step that breaks the property")

    def _confirm(self, claim: SafetyClaim, state: State) -> None:
        """The interpreter must agree before anybody is told."""
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

    def _at_end(self, case: Case) -> Verdict:
        """The verdict of a case that no hit decided."""
        session = self.session
        claim = case.claim
        if isinstance(claim, Reachable) and claim.optimise is not None:
            return self._best(case, claim)
        if session.stopped:
            return Unknown(session.stopped)
        if isinstance(claim, Reachable):
            return Violated("no reachable state satisfies it")
        return Holds(vacuous=unmet_premise(self.session.exploration.seen, case.premises))

    def _best(self, case: Case, claim: Reachable) -> Verdict:
        assert claim.optimise is not None
        best = self.session.exploration.best(case.measure)
        stopped = self.session.stopped
        if best is None:
            return Unknown(stopped) if stopped else Violated("no reachable state satisfies it")
        value, index = best
        states = self._path(index)
        assert self.interpreter.value(claim.optimise.value, states[-1]) == value
        trace = Trace(replay(self.interpreter, states))
        what = f"{claim.optimise.direction} {print_expr(claim.optimise.value)} = {value}"
        return Unknown(f"{stopped}; so far {what}", trace) if stopped else Holds(what, trace)
