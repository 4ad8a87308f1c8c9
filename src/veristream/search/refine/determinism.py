"""Determinism: no two steps of one event lead from a reachable state to different states.

States are expanded in the order in which they are found, so the first violation is one of those nearest to
the initial state. Symmetry is not used: it would merge states that are different.

One worker needs the edges of a state only until they are compared. Several workers search for pairs as in a
refinement, with nothing on the other side: that keeps the order in which one worker finds the states.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from veristream.ir.network import Network
from veristream.ir.property import Property, kind_of
from veristream.ir.state import State
from veristream.native.loop import loop
from veristream.native.primitives import set_word, word_at
from veristream.search.limits import Limits, Report
from veristream.search.memory import OutOfMemoryError, Reserve, budget_bytes, reserve
from veristream.search.reach.explore import sharing_of
from veristream.search.refine import pairs
from veristream.search.refine.alphabet import TAU, Alphabet
from veristream.search.refine.labelled import Labelled
from veristream.search.refine.normal_form import Unspecified
from veristream.search.refine.sharing import SharedPairs
from veristream.search.refine.system import (
    DONE,
    EDGES,
    FAULT,
    GROW,
    QUANTUM,
    STATES,
    WORK,
    System,
    expand_state,
)
from veristream.search.refine.tables import Sequences, Words, address_of
from veristream.search.refine.ways import NO_EVENT, split_event
from veristream.search.session import Session
from veristream.search.trace import action_fault, replay
from veristream.verdict import Counts, Holds, Result, Trace, Unknown, Verdict, Violated

COMPLETE, BROKEN = 10, 11

# The state of the loop between calls.
CURSOR, LEVEL_END, DEPTH, TRANSITIONS, EVENT, DETERMINISM_COUNTS = range(6)


class Seen(NamedTuple):
    """Addresses: of the state of the loop between calls, and the scratch of `split_event`."""

    counts: int
    ways: int


@loop
def _explore(system: System, alphabet: Sequences, seen: Seen, quantum: int) -> int:
    """Expands about `quantum` states, up to a violation; returns why it stopped."""
    counts = seen.counts
    for _ in range(quantum):
        state = word_at(counts, CURSOR)
        if state == word_at(counts, LEVEL_END):
            known = word_at(system.counts, STATES)
            if state == known:
                return COMPLETE
            set_word(counts, LEVEL_END, known)
            set_word(counts, DEPTH, word_at(counts, DEPTH) + 1)
        set_word(system.counts, EDGES, 0)  # the edges of earlier states are not needed again
        code = expand_state(system, alphabet, state)
        if code != DONE:
            return code
        event = split_event(system, seen.ways, state)
        if event != NO_EVENT:
            set_word(counts, EVENT, event)
            return BROKEN
        steps = word_at(system.counts, EDGES)
        set_word(counts, TRANSITIONS, word_at(counts, TRANSITIONS) + steps)
        set_word(counts, CURSOR, state + 1)
    return QUANTUM


class States:
    """An exploration in progress by one worker; see `session.Advancing`."""

    def __init__(self, labelled: Labelled, budget: int) -> None:
        self.labelled, self.budget = labelled, budget
        self.complete, self.failed, self.broken = False, False, False
        self._ways: Reserve = reserve(16 * labelled.alphabet.table.native.first_size)
        self.tally: Words = np.zeros(DETERMINISM_COUNTS, np.int64)
        self.tally[LEVEL_END] = 1

    @property
    def counts(self) -> Counts:
        """The depth is the number of the level being expanded; after the end, the greatest distance."""
        states = self.labelled.state_count
        transitions, depth, cursor = (int(self.tally[which]) for which in (TRANSITIONS, DEPTH, CURSOR))
        return Counts(states, transitions, depth, frontier=states - cursor)

    @property
    def byte_count(self) -> int:
        """Memory in use."""
        table = self.labelled.alphabet.table
        return self.labelled.byte_count + table.byte_count + 16 * len(table)

    @property
    def event(self) -> int:
        """The event that leads to different states, if `broken`."""
        return int(self.tally[EVENT])

    def run(self) -> list[State]:
        """The run to the state that is expanded next, or that failed or broke."""
        return self.labelled.path_to(int(self.tally[CURSOR]))

    def advance(self, quantum: int) -> None:
        """Expands about `quantum` states."""
        self.labelled.counts[WORK] = quantum
        seen = Seen(address_of(self.tally), self._ways.address)
        code = GROW
        while code == GROW:
            labelled = self.labelled
            alphabet = labelled.alphabet.table.native
            code = int(_explore(labelled.native, alphabet, seen, quantum))
            if self.byte_count > self.budget:
                raise OutOfMemoryError
            if code == GROW:
                labelled.make_room()
        self.failed, self.broken = code == FAULT, code == BROKEN
        self.complete = code in (FAULT, BROKEN, COMPLETE)


class SharedStates(SharedPairs):
    """The same by several workers, from where one worker is; every pair has the node 0."""

    def __init__(self, alone: States) -> None:
        super().__init__(alone.labelled, Unspecified(alone.labelled), alone.budget)
        labelled, count = alone.labelled, alone.labelled.state_count
        states, _, parents, _, _ = (part.words.view(np.uint32) for part in self._reserves)
        heads, queue = (part.words.view(np.uint32) for part in (self._heads, self._queue))
        states[:count] = queue[:count] = np.arange(count)
        heads[:count] = states[:count] + 1
        parents[:count] = labelled.memory["parents"].words.view(np.uint32)[:count]
        self.tally[[pairs.PAIRS, pairs.NEXT]] = count
        self.tally[[pairs.CURSOR, pairs.LEVEL_END, pairs.DEPTH, pairs.TRANSITIONS]] = alone.tally[
            [CURSOR, LEVEL_END, DEPTH, TRANSITIONS]
        ]

    @property
    def event(self) -> int:
        """The event that leads to different states, if `broken`."""
        assert self.broken is not None
        return self.broken.edge

    def advance(self, quantum: int) -> None:
        """Expands about `quantum` states."""
        super().advance(quantum)
        self.implementation.forget_edges()  # every state that is expanded has been checked too

    def run(self) -> list[State]:
        """The run to the state that is expanded next, or that failed or broke."""
        return [self.implementation.state(state) for state, _ in self.path(self.current)]


class Determinism:
    """An exploration in progress: by one worker up to a number of states, then by all; see
    `session.Advancing`."""

    def __init__(self, labelled: Labelled, budget: int, shared_from: int) -> None:
        self.labelled, self.budget = labelled, budget
        self.now: States | SharedStates = States(labelled, budget)
        self._shared_from = shared_from

    @property
    def counts(self) -> Counts:
        """Of states."""
        return self.now.counts

    @property
    def byte_count(self) -> int:
        """Memory in use."""
        return self.now.byte_count

    @property
    def complete(self) -> bool:
        """Whether everything is explored, or nothing more need be."""
        return self.now.complete

    def advance(self, quantum: int) -> None:
        """Expands about `quantum` states."""
        labelled = self.labelled
        is_large = labelled.crew.size > 1 and labelled.state_count >= self._shared_from
        if isinstance(self.now, States) and is_large:
            self.now = SharedStates(self.now)
        self.now.advance(quantum)

    def close(self) -> None:
        """Ends the threads."""
        self.labelled.crew.close()


def check_determinism(network: Network, property_: Property, limits: Limits, report: Report) -> Result:
    """The result of a claim of determinism."""
    started = time.monotonic()
    budget = budget_bytes(limits.memory_max_mib)
    workers, shared_from = sharing_of(limits)
    labelled = Labelled(network, Alphabet(budget), budget, workers)
    exploration = Determinism(labelled, budget, shared_from)
    session = Session(exploration, limits, report, property_.name, started)
    for _ in session.rounds():
        pass
    verdict = _verdict(labelled, exploration.now, session.stopped)
    return Result(property_.name, kind_of(property_.claim), verdict, session.effort())


def _verdict(labelled: Labelled, states: States | SharedStates, stopped: str) -> Verdict:
    if states.failed:
        assert labelled.failure is not None
        _, action = labelled.failure
        found = action_fault(labelled.interpreter, states.run(), action)
        assert found is not None, "the interpreter knows no failing action there"
        return found
    if states.broken:
        return _violated(labelled, states.run(), states.event)
    return Unknown(stopped) if stopped else Holds()


def _violated(labelled: Labelled, run: list[State], event: int) -> Violated:
    text = labelled.alphabet.text(event)
    wanted = None if event == TAU else text
    steps = labelled.interpreter.steps(run[-1])
    after = {taken.state for taken in steps if labelled.shown(taken) == wanted}
    assert len(after) > 1, "the interpreter does not agree that the step can go two ways"
    reason = f"in the last state, {text} can lead to {len(after)} different states"
    return Violated(reason, Trace(replay(labelled.interpreter, run), shortest=True))
