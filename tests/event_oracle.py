"""Oracles for refinement and determinism that share nothing with the search but the interpreter.

`Process` is a network as its definition says: states, and which events lead where. On it, `breaks_by`
compares sets of traces, failures and divergences up to a depth, straight from Roscoe's definitions
("Understanding Concurrent Systems", 2010), and `steps_to_break` says how many steps the shortest run
has that breaks a refinement.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain, combinations

from veristream.ir.network import Component, Edge, Label, Location, Network
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.property import RefinementModel
from veristream.ir.show import show_state
from veristream.ir.state import State
from veristream.verdict import Trace

Event = str | None
"""What is shown of a step; None is invisible."""
Events = tuple[str, ...]


def process(text: str, name: str = "process") -> Network:
    """The network of one component whose edges are written `0 a 1; 1 tau 2`; it begins at 0."""
    edges = [part.split() for part in text.split(";") if part.strip()]
    places = dict.fromkeys(["0", *(place for source, _, target in edges for place in (source, target))])
    return Network(
        name,
        components=(
            Component(
                "P",
                tuple(Location(place) for place in places),
                tuple(_edge(*edge) for edge in edges),
                "0",
            ),
        ),
    )


def _edge(source: str, event: str, target: str) -> Edge:
    is_silent = event == "tau"
    return Edge(source, target, label=None if is_silent else Label(event), visible=not is_silent)


class TooLargeError(Exception):
    """The network has more states than the caller allows."""


class Process:
    """All states of a network with their steps."""

    def __init__(self, network: Network, state_count_max: int = 400) -> None:
        self.network = network
        self.interpreter = Interpreter(network)
        self.initial = self.interpreter.initial()
        self.steps: dict[State, list[tuple[Event, State]]] = {}
        self.depth = {self.initial: 0}
        queue = deque([self.initial])
        while queue:
            state = queue.popleft()
            self.steps[state] = list(self._steps(state))
            for _, target in self.steps[state]:
                if target not in self.depth:
                    self.depth[target] = self.depth[state] + 1
                    queue.append(target)
            if len(self.depth) > state_count_max:
                raise TooLargeError(f"more than {state_count_max} states")

    def _steps(self, state: State) -> Iterator[tuple[Event, State]]:
        for taken in self.interpreter.steps(state):
            visible = self.interpreter.actions[taken.action].visible
            yield (taken.label if visible else None), taken.state

    @property
    def alphabet(self) -> set[str]:
        """All visible events."""
        return {event for steps in self.steps.values() for event, _ in steps if event is not None}

    def closure(self, states: set[State]) -> frozenset[State]:
        """The states and all that invisible steps lead to."""
        found, waiting = set(states), list(states)
        while waiting:
            for event, target in self.steps[waiting.pop()]:
                if event is None and target not in found:
                    found.add(target)
                    waiting.append(target)
        return frozenset(found)

    def start(self) -> frozenset[State]:
        """Where the process can be before any visible event."""
        return self.closure({self.initial})

    def after(self, states: frozenset[State], event: str) -> frozenset[State]:
        """Where the process can be after the event."""
        return self.closure({t for state in states for e, t in self.steps[state] if e == event})

    def initials(self, state: State) -> frozenset[str]:
        """The visible events of the state."""
        return frozenset(event for event, _ in self.steps[state] if event is not None)

    def is_stable(self, state: State) -> bool:
        """Whether the state has no invisible step."""
        return all(event is not None for event, _ in self.steps[state])

    def is_on_circle(self, state: State) -> bool:
        """Whether invisible steps lead from the state back to it."""
        after = {target for event, target in self.steps[state] if event is None}
        return state in self.closure(after)

    def diverges(self, states: frozenset[State]) -> bool:
        """Whether invisible steps can go on forever from one of the states, a closed set."""
        return any(self.is_on_circle(state) for state in states)

    def traces(self, depth: int, count_max: int) -> tuple[dict[Events, frozenset[State]], int]:
        """The traces up to the depth, with where each leads; a smaller depth where they are too many."""
        level = {(): self.start()}
        found: dict[Events, frozenset[State]] = dict(level)
        for reached in range(1, depth + 1):
            events = sorted(self.alphabet)
            following = {
                (*trace, event): after
                for trace, states in level.items()
                for event in events
                if (after := self.after(states, event))
            }
            if len(found) + len(following) > count_max:
                return found, reached - 1
            found |= following
            level = following
        return found, depth


def breaks_by(
    implementation: Process, specification: Process, model: RefinementModel, depth: int = 6
) -> tuple[bool, int]:
    """Whether sets of observations up to the depth show that the refinement does not hold; and the
    depth, which is smaller where there are too many traces."""
    mine, reached = implementation.traces(depth, 3000)
    theirs, _ = specification.traces(reached, 1 << 30)
    if model == "T":
        return not set(mine) <= set(theirs), reached
    alphabet = implementation.alphabet | specification.alphabet
    refused, allowed = (
        {
            (trace, refusal)
            for trace, states in found.items()
            for refusal in _refusals(side, states, alphabet)
        }
        for side, found in ((implementation, mine), (specification, theirs))
    )
    beyond = {failure for failure in refused - allowed if not _is_part_of(failure, allowed)}
    if model == "F":
        return not set(mine) <= set(theirs) or bool(beyond), reached
    endless = {trace for trace, states in mine.items() if implementation.diverges(states)}
    chaos = {trace for trace, states in theirs.items() if specification.diverges(states)}
    suspects = endless | (set(mine) - set(theirs)) | {trace for trace, _ in beyond}
    return not all(any(t[:size] in chaos for size in range(len(t) + 1)) for t in suspects), reached


Failure = tuple[Events, frozenset[str]]


def _refusals(side: Process, states: frozenset[State], alphabet: set[str]) -> Iterator[frozenset[str]]:
    """Every set of events that a stable one of the states refuses; only the greatest of them where the
    alphabet is large."""
    for state in states:
        if side.is_stable(state):
            refused = sorted(alphabet - side.initials(state))
            yield from map(frozenset, _subsets(refused) if len(alphabet) <= 4 else [refused])


def _is_part_of(failure: Failure, failures: set[Failure]) -> bool:
    """Whether the refusal is part of a greater one after the same trace."""
    return any(failure[0] == trace and failure[1] <= refusal for trace, refusal in failures)


def _subsets(items: list[str]) -> Iterator[tuple[str, ...]]:
    return chain.from_iterable(combinations(items, size) for size in range(len(items) + 1))


def steps_to_break(implementation: Process, specification: Process, model: RefinementModel) -> int | None:
    """How many steps the shortest run has that breaks the refinement, up to where it diverges if it
    does; None where none does. A plain product, without any of the search's short cuts."""
    first = (implementation.initial, specification.start())
    depth = {first: 0}
    queue = deque([first])
    least: int | None = None
    while queue:
        state, after = pair = queue.popleft()
        if least is not None and depth[pair] >= least:
            return least
        if model == "FD" and specification.diverges(after):
            continue
        if is_broken_at(implementation, state, specification, after, model):
            return depth[pair]
        for event, target in implementation.steps[state]:
            following = after if event is None else specification.after(after, event)
            if not following:
                least = depth[pair] + 1
            elif (target, following) not in depth:
                depth[target, following] = depth[pair] + 1
                queue.append((target, following))
    return least


def is_broken_at(
    implementation: Process,
    state: State,
    specification: Process,
    after: frozenset[State],
    model: RefinementModel,
) -> bool:
    """Whether the state refuses or diverges as the specification, where it can be by now, may not."""
    if model == "FD" and specification.diverges(after):
        return False
    if model == "FD" and implementation.diverges(implementation.closure({state})):
        return True
    if model == "T" or not implementation.is_stable(state):
        return False
    offers = [specification.initials(s) for s in after if specification.is_stable(s)]
    return not any(offer <= implementation.initials(state) for offer in offers)


def visible_traces(implementation: Process, trace: Trace) -> set[tuple[Events, State]]:
    """What the shown run can have been: its visible events and its last state."""
    network = implementation.network
    assert trace.steps[0].state == show_state(network, implementation.initial)
    found: set[tuple[Events, State]] = {((), implementation.initial)}
    for step in trace.steps[1:]:
        found = {
            (
                events
                if not implementation.interpreter.actions[taken.action].visible
                else (*events, taken.label),
                taken.state,
            )
            for events, state in found
            for taken in implementation.interpreter.steps(state)
            if (taken.label, taken.process) == (step.action, step.process)
            and show_state(network, taken.state) == step.state
        }
    return found


def really_breaks(
    implementation: Process, specification: Process, model: RefinementModel, trace: Trace
) -> bool:
    """Whether the shown run breaks the refinement at its end, and nowhere before is all allowed."""
    for events, state in visible_traces(implementation, trace):
        after, allowed = specification.start(), False
        for event in events[:-1] if events else ():
            allowed = allowed or (model == "FD" and specification.diverges(after))
            after = specification.after(after, event)
        if events:
            allowed = allowed or (model == "FD" and specification.diverges(after))
            after = specification.after(after, events[-1])
        if allowed:
            continue
        if not after or is_broken_at(implementation, state, specification, after, model):
            return True
    return False


def steps_to_two_ways(process_: Process) -> int | None:
    """The distance of the nearest state in which one event leads to different states."""
    found = [
        process_.depth[state]
        for state, steps in process_.steps.items()
        if len({event for event, _ in steps}) < len(set(steps))
    ]
    return min(found, default=None)
