"""Refinement: whether a specification allows everything that the network does, as CSP observes it.

The search over pairs (`pairs`) decides it; this module makes the verdict. The interpreter replays a run
that violates the refinement, and follows the specification along it, if that is feasible.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from veristream.ir.network import Network
from veristream.ir.oracle.interpret import Interpreter, Taken
from veristream.ir.property import Property, Refines, kind_of
from veristream.ir.state import State
from veristream.search.limits import Limits, Report
from veristream.search.memory import budget_bytes
from veristream.search.reach.explore import sharing_of
from veristream.search.refine.alphabet import TAU, Alphabet
from veristream.search.refine.labelled import Labelled
from veristream.search.refine.normal_form import DIVERGENCES, FAILURES, TRACES, NormalForm
from veristream.search.refine.pairs import CANNOT, ENDLESS, REFUSES, Break, Pairs
from veristream.search.refine.sharing import SharedPairs
from veristream.search.refine.tables import SequenceTable
from veristream.search.session import Session
from veristream.search.trace import action_fault, find_step, first_step
from veristream.verdict import Holds, Result, Step, Trace, Unknown, Verdict, Violated

DEPTHS = {"T": TRACES, "F": FAILURES, "FD": DIVERGENCES}
CONFIRM_MAX = 2000  # states of the specification that the interpreter visits to confirm a violation
EVENTS_SHOWN = 8
SETS_SHOWN = 3

Event = tuple[int, str]
"""An event's number and its text."""


def check_refinement(network: Network, property_: Property, limits: Limits, report: Report) -> Result:
    """The result of a refinement."""
    claim = property_.claim
    assert isinstance(claim, Refines)
    search = _Search(network, property_.name, claim, (limits, report))
    verdict = search.run()
    return Result(property_.name, kind_of(claim), verdict, search.session.effort())


class _Search:
    """One search for pairs."""

    def __init__(self, network: Network, name: str, claim: Refines, bounds: tuple[Limits, Report]) -> None:
        started = time.monotonic()
        limits, report = bounds
        budget = budget_bytes(limits.memory_max_mib)
        self.claim, self.limits = claim, limits
        self.alphabet = Alphabet(budget)
        workers, shared_from = sharing_of(limits)
        self.implementation = Labelled(network, self.alphabet, budget, workers)
        self.specification = Labelled(claim.specification, self.alphabet, budget)
        self.offers = SequenceTable(budget)
        depth = DEPTHS[claim.model]
        self.normal = NormalForm(self.specification, self.offers, depth, budget)
        sides = self.implementation, self.normal, budget
        self.pairs = Pairs(*sides) if workers == 1 else SharedPairs(*sides, shared_from)
        self.session = Session(self.pairs, limits, report, name, started)

    def run(self) -> Verdict:
        """Explores until the refinement is violated or everything is compared."""
        for _ in self.session.rounds():
            self._limit_states()
        pairs = self.pairs
        if pairs.failed is not None:
            return self._failed(pairs.failed)
        if pairs.broken is not None:
            return self._violated(pairs.broken)
        if self.session.stopped:
            return Unknown(self.session.stopped)
        return Holds(vacuous=self._vacuity())

    def _limit_states(self) -> None:
        """Applies the limit to the states of each side too: a few pairs may need many states."""
        most = self.limits.states_max
        found = max(self.implementation.state_count, self.specification.state_count)
        if most is not None and found >= most and not self.pairs.complete:
            self.session.stopped = self.session.out_of_states

    def _failed(self, side: Labelled) -> Unknown:
        """The verdict after a fault of either network, which leaves nothing to rely on."""
        assert side.failure is not None
        state, action = side.failure
        path = side.path_to(state)
        if side is self.implementation and self.claim.model != "FD":
            # Which worker has found the state first does not matter for the run of pairs.
            path = [side.state(one) for one, _ in self.pairs.path(self.pairs.current)]
        found = action_fault(side.interpreter, path, action)
        assert found is not None and found.trace is not None, "no action fails there"
        if side is self.implementation and self.claim.model != "FD":
            return found
        where = "in the specification, " if side is self.specification else ""
        return replace(found, reason=where + found.reason, trace=replace(found.trace, shortest=False))

    def _vacuity(self) -> str | None:
        """Why the refinement is vacuously true, if it is."""
        if self.claim.model == "FD":
            if self.normal.diverges(0):
                return "the specification diverges from the start, so it allows everything"
            return None
        if not self.pairs.saw_visible and not self.pairs.saw_stable:
            return "the network takes no visible action, so there is nothing to compare"
        return None

    # Violations.

    def _violated(self, broken: Break) -> Violated:
        run = self.pairs.path(broken.pair)
        loop = None
        if broken.how == CANNOT:
            event, target = self.implementation.edge(broken.edge)
            run.append((target, event))
        elif broken.how == ENDLESS:
            run, loop = self._endless(run)
        reason = self._reason(broken, run)
        states = [self.implementation.state(state) for state, _ in run]
        steps = self._replay(states, [event for _, event in run])
        self._confirm(broken, run)
        return Violated(reason, Trace(steps, loop=loop, shortest=loop is None))

    def _replay(self, states: list[State], events: list[int]) -> tuple[Step, ...]:
        interpreter = self.implementation.interpreter
        assert states[0] == interpreter.initial(), "a trace begins in the initial state"
        steps = [first_step(interpreter, states[0])]
        for position in range(1, len(states)):
            accept = self._is_event(events[position])
            steps.append(find_step(interpreter, states[position - 1], states[position], accept))
        return tuple(steps)

    def _is_event(self, event: int) -> Callable[[Taken], bool]:
        wanted = None if event == TAU else self.alphabet.text(event)
        return lambda taken: self.implementation.shown(taken) == wanted

    def _endless(self, run: list[tuple[int, int]]) -> tuple[list[tuple[int, int]], int]:
        """Extends the run along invisible steps until a state repeats; and where that state was before."""
        place = {run[-1][0]: len(run) - 1}
        while True:
            silent = [target for event, target in self.implementation.edges(run[-1][0]) if event == TAU]
            after = next(target for target in silent if self.implementation.diverges(target))
            run.append((after, TAU))
            if after in place:
                return run, place[after]
            place[after] = len(run) - 1

    def _reason(self, broken: Break, run: list[tuple[int, int]]) -> str:
        events = [self.alphabet.text(event) for _, event in run if event != TAU]
        node = self.pairs.node(broken.pair)
        if broken.how == CANNOT:
            return f"{_after(events[:-1])} the specification cannot do {events[-1]}"
        if broken.how == REFUSES:
            return f"{_after(events)} the network {self._refusal(run[-1][0], node)}"
        does = "diverges: it can take invisible steps forever"
        return f"{_after(events)} the network {does}, and the specification does not"

    def _refusal(self, state: int, node: int) -> str:
        """What the state refuses although the specification must offer it, in words."""
        offered = set(self._offer(self.implementation.offer(state)))
        least = [self._offer(offer) for offer in self.normal.least_offers(node)]
        if not least:
            return "has no invisible step, but the specification always has one"
        refused = {event for offer in least for event in offer if event not in offered}
        sets = sorted((_braces(text for _, text in offer) for offer in least), key=lambda s: (len(s), s))
        more = " or another set" if len(sets) > SETS_SHOWN else ""
        must = " or ".join(sets[:SETS_SHOWN]) + more
        return f"refuses {_braces(text for _, text in refused)} where the specification must offer {must}"

    def _offer(self, offer: int) -> list[Event]:
        return [(int(event), self.alphabet.text(int(event))) for event in self.offers[offer]]

    # The interpreter must agree before a violation is reported.

    def _confirm(self, broken: Break, run: list[tuple[int, int]]) -> None:
        events = [self.alphabet.text(event) for _, event in run if event != TAU]
        followed = events[:-1] if broken.how == CANNOT else events
        after = _after_trace(self.specification, followed)
        if after is None:
            return  # too many states
        spec = self.specification
        agrees = bool(after)
        if broken.how == CANNOT:
            agrees &= not any(spec.shown(t) == events[-1] for s in after for t in spec.interpreter.steps(s))
        if broken.how == REFUSES:
            state = self.implementation.state(run[-1][0])
            offered = {self.implementation.shown(t) for t in self.implementation.interpreter.steps(state)}
            offers = [{spec.shown(t) for t in spec.interpreter.steps(s)} for s in after]
            agrees &= None not in offered
            agrees &= not any(None not in offer and offer <= offered for offer in offers)
        if self.claim.model == "FD":
            agrees &= not _has_endless(spec, after)
        assert agrees, "the interpreter allows what the search says the specification does not"


def _after(events: list[str]) -> str:
    if not events:
        return "at the start"
    left_out = "..., " if len(events) > EVENTS_SHOWN else ""
    return f"after {left_out}{', '.join(events[-EVENTS_SHOWN:])}"


def _braces(texts: Iterable[str]) -> str:
    return "{" + ", ".join(sorted(texts)) + "}"


def _after_trace(side: Labelled, events: list[str]) -> set[State] | None:
    """All states after the trace, by the interpreter; None if there are too many."""
    after = _closure(side, {side.interpreter.initial()})
    looked_at = 0
    for event in events:
        if after is None:
            return None
        looked_at += len(after)
        if looked_at > CONFIRM_MAX:
            return None
        steps = [taken for state in after for taken in side.interpreter.steps(state)]
        after = _closure(side, {taken.state for taken in steps if side.shown(taken) == event})
    return after


def _closure(side: Labelled, states: set[State]) -> set[State] | None:
    """The states with all states that invisible steps lead to; None if there are too many."""
    waiting = list(states)
    found = set(states)
    while waiting:
        for target in _silent(side.interpreter, side, waiting.pop()):
            if target not in found:
                found.add(target)
                waiting.append(target)
        if len(found) > CONFIRM_MAX:
            return None
    return found


def _silent(interpreter: Interpreter, side: Labelled, state: State) -> list[State]:
    return [taken.state for taken in interpreter.steps(state) if side.shown(taken) is None]


def _has_endless(side: Labelled, states: set[State]) -> bool:
    """Whether invisible steps form a cycle among the states: states without a successor are removed until
    nothing is left, or only cycles and what leads to them."""
    ways = {state: set(_silent(side.interpreter, side, state)) for state in states}
    while True:
        ended = {state for state, targets in ways.items() if not targets & ways.keys()}
        if not ended:
            return bool(ways)
        for state in ended:
            del ways[state]
