"""Determinism: no two steps of one event lead from a reachable state to different states.

States are expanded in the order in which they are found, so the first violation is one of those nearest to
the initial state. Symmetry is not used: it would merge states that are different.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from veristream.ir.network import Network
from veristream.ir.property import Property, kind_of
from veristream.native.loop import loop
from veristream.native.primitives import half_at, set_word, word_at
from veristream.search.limits import Limits, Report
from veristream.search.memory import OutOfMemoryError, budget_bytes, reserve
from veristream.search.refine.alphabet import TAU, Alphabet
from veristream.search.refine.labelled import Labelled
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
from veristream.search.session import Session
from veristream.search.trace import action_fault, replay
from veristream.verdict import Counts, Holds, Result, Trace, Unknown, Verdict, Violated

COMPLETE, BROKEN = 10, 11

# The state of the loop between calls.
CURSOR, LEVEL_END, DEPTH, TRANSITIONS, EVENT, DETERMINISM_COUNTS = range(6)


class Seen(NamedTuple):
    """Addresses: of the state of the loop between calls, and for each event the last state that had a step
    of it, plus 1, and the target of that step."""

    counts: int
    stamps: int
    leads: int


@loop
def _has_two_ways(system, seen, state):  # type: ignore[no-untyped-def]
    """Whether steps of one event lead from the state to different states; notes the event."""
    for edge in range(word_at(system.first, state) - 1, word_at(system.last, state)):
        event, target = half_at(system.events, edge), half_at(system.targets, edge)
        if word_at(seen.stamps, event) == state + 1 and word_at(seen.leads, event) != target:
            set_word(seen.counts, EVENT, event)
            return True
        set_word(seen.stamps, event, state + 1)
        set_word(seen.leads, event, target)
    return False


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
        if _has_two_ways(system, seen, state):
            return BROKEN
        steps = word_at(system.counts, EDGES)
        set_word(counts, TRANSITIONS, word_at(counts, TRANSITIONS) + steps)
        set_word(counts, CURSOR, state + 1)
    return QUANTUM


class States:
    """An exploration in progress; see `session.Advancing`."""

    def __init__(self, labelled: Labelled, budget: int) -> None:
        self.labelled, self.budget = labelled, budget
        self.complete, self.failed, self.broken = False, False, False
        room = labelled.alphabet.table.native.first_size
        self._reserves = (reserve(8 * room), reserve(8 * room))
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

    def advance(self, quantum: int) -> None:
        """Expands about `quantum` states."""
        self.labelled.counts[WORK] = quantum
        stamps, leads = (part.address for part in self._reserves)
        seen = Seen(address_of(self.tally), stamps, leads)
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

    def close(self) -> None:
        """Nothing to release."""


def check_determinism(network: Network, property_: Property, limits: Limits, report: Report) -> Result:
    """The result of a claim of determinism."""
    started = time.monotonic()
    budget = budget_bytes(limits.memory_max_mib)
    labelled = Labelled(network, Alphabet(budget), budget)
    states = States(labelled, budget)
    session = Session(states, limits, report, property_.name, started)
    for _ in session.rounds():
        pass
    verdict = _verdict(states, session.stopped)
    return Result(property_.name, kind_of(property_.claim), verdict, session.effort())


def _verdict(states: States, stopped: str) -> Verdict:
    labelled = states.labelled
    if states.failed:
        assert labelled.failure is not None
        state, action = labelled.failure
        found = action_fault(labelled.interpreter, labelled.path_to(state), action)
        assert found is not None, "the interpreter knows no failing action there"
        return found
    if states.broken:
        return _violated(states)
    return Unknown(stopped) if stopped else Holds()


def _violated(states: States) -> Violated:
    labelled = states.labelled
    run = labelled.path_to(int(states.tally[CURSOR]))
    event = int(states.tally[EVENT])
    text = labelled.alphabet.text(event)
    wanted = None if event == TAU else text
    steps = labelled.interpreter.steps(run[-1])
    after = {taken.state for taken in steps if labelled.shown(taken) == wanted}
    assert len(after) > 1, "the interpreter does not agree that the step can go two ways"
    reason = f"in the last state, {text} can lead to {len(after)} different states"
    return Violated(reason, Trace(replay(labelled.interpreter, run), shortest=True))
