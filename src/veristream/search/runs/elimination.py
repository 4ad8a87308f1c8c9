"""Finds the states of a shared graph from which a fair accepting run can continue forever, in native code.

States are removed until a fixed point is reached: those without a step to a remaining state, and those from
which something that a run must do infinitely often cannot be reached by steps among remaining states. If
any state remains, there is a fair accepting cycle, since the terminal components of the remainder are such
cycles (Emerson and Lei, "Modalities for model checking", 1987; on shared graphs known as OWCTY, "one way
catch them young": Fisler, Fraer, Kamhi, Vardi, Yang, 2001; Černá and Pelánek, 2003).

Edges are stored with their targets, so both kinds of work go backwards. A part processes its queue and
sends other parts one word for each of their states that is affected; a wave ends when all queues are empty.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.native.loop import loop
from veristream.native.primitives import load_short, load_word

# What a wave does to the source of an edge.
TRIM, REACH = range(2)

# The progress of a wave: what it does, the next entry of the queue and its end, the next edge of the state
# in hand, the next state whose edges are searched for a goal.
MODE, HEAD, TAIL, EDGE, SEEDED, WAVE_CONTROL = range(6)

WAVE_OVER, WAVE_FULL = range(2)


class Backward(NamedTuple):
    """The edges of a part, sorted by target: state v has the edges first[v]..first[v + 1] - 1."""

    first: NDArray[np.int64]
    sources: NDArray[np.uint32]
    owners: NDArray[np.uint16]
    entries: NDArray[np.int64]


class Wave(NamedTuple):
    """The knowledge about each state, the queue, and the words that wait for other parts."""

    part: int
    left: NDArray[np.bool_]
    reached: NDArray[np.bool_]
    outs: NDArray[np.uint32]  # steps to remaining states
    queue: NDArray[np.uint32]
    control: NDArray[np.int64]
    outboxes: Annotated[NDArray[np.int64], 2]  # one row for each part
    used: NDArray[np.int64]


class Goal(NamedTuple):
    """The goal of a search: an edge with a mark, or with an action of a fairness unit."""

    mark: int  # a bit of the entry's upper half; 0 if a unit is meant
    of_action: Annotated[NDArray[np.int64], 2]  # per action: units as bit words
    word: int
    bit: int


NOWHERE = Goal(0, np.zeros((1, 1), np.int64), 0, 0)
"""A goal that no edge satisfies."""


@loop
def sort_edges(words: int, owners: int, count: int, backward: Backward) -> None:
    """Sorts `count` edges, stored as in `partition`, by target."""
    first = backward.first
    for v in range(first.size):
        first[v] = 0
    for k in range(count):
        following = ((load_word(words + 16 * k) >> 32) & 0xFFFFFFFF) + 2
        if following < first.size:
            first[following] += 1
    for v in range(first.size - 1):
        first[v + 1] += first[v]
    # first[v + 1] is where the edges of v begin, and moves to where they end.
    for k in range(count):
        word = load_word(words + 16 * k)
        target = (word >> 32) & 0xFFFFFFFF
        at = first[target + 1]
        first[target + 1] = at + 1
        backward.sources[at] = word & 0xFFFFFFFF
        backward.owners[at] = load_short(owners + 2 * k)
        backward.entries[at] = load_word(words + 16 * k + 8)


@loop
def _push(wave, state):  # type: ignore[no-untyped-def]
    wave.queue[wave.control[TAIL]] = state
    wave.control[TAIL] += 1


@loop
def drop(wave, state):  # type: ignore[no-untyped-def]
    """Removes a state and queues it, so that its predecessors are told."""
    wave.left[state] = False
    _push(wave, state)


@loop
def touch(wave: Wave, state: int) -> None:
    """Applies the wave to a state of this part."""
    if wave.control[MODE] == TRIM:
        wave.outs[state] -= np.uint32(1)
        if wave.outs[state] == 0 and wave.left[state]:
            drop(wave, state)
    elif wave.left[state] and not wave.reached[state]:
        wave.reached[state] = True
        _push(wave, state)


@loop
def touch_all(wave: Wave, states: NDArray[np.int64]) -> None:
    """Applies the wave to states that other parts sent."""
    for k in range(states.size):
        touch(wave, states[k])


@loop
def _touch_source(backward, wave, edge):  # type: ignore[no-untyped-def]
    """Applies the wave to the source of an edge in any part; returns False if that part's outbox is
    full."""
    owner = backward.owners[edge]
    if owner == wave.part:
        touch(wave, backward.sources[edge])
        return True
    if wave.used[owner] == wave.outboxes.shape[1]:
        return False
    wave.outboxes[owner, wave.used[owner]] = backward.sources[edge]
    wave.used[owner] += 1
    return True


@loop
def begin_trim(wave: Wave) -> None:
    """Begins with all states; those without a step are removed first."""
    wave.left[:] = True
    wave.control[:] = 0
    wave.control[MODE] = TRIM
    wave.control[EDGE] = -1
    wave.control[SEEDED] = wave.left.size
    for v in range(wave.left.size):
        if wave.outs[v] == 0:
            drop(wave, v)


@loop
def begin_reach(wave: Wave) -> None:
    """Begins with no state reached; `run_wave` searches for the goal."""
    wave.reached[:] = False
    wave.control[MODE] = REACH
    wave.control[HEAD] = wave.control[TAIL] = wave.control[SEEDED] = 0
    wave.control[EDGE] = -1


@loop
def begin_cut(wave: Wave, spared: NDArray[np.bool_]) -> int:
    """Removes the states that were not reached and are not spared; returns how many."""
    wave.control[MODE] = TRIM
    wave.control[HEAD] = wave.control[TAIL] = 0
    wave.control[SEEDED] = wave.left.size
    wave.control[EDGE] = -1
    for v in range(wave.left.size):
        if wave.left[v] and not wave.reached[v] and not spared[v]:
            drop(wave, v)
    return wave.control[TAIL]


@loop
def _meets(backward, goal, edge):  # type: ignore[no-untyped-def]
    entry = backward.entries[edge]
    if goal.mark != 0:
        return (entry >> 32) & goal.mark != 0
    action = entry & 0xFFFFFFFF
    return action < goal.of_action.shape[0] and (goal.of_action[action, goal.word] >> goal.bit) & 1 != 0


@loop
def _look_through(backward, wave, goal, quantum):  # type: ignore[no-untyped-def]
    """Searches for goal edges; returns WAVE_FULL if an outbox is full or the quantum is used up."""
    control = wave.control
    end = min(wave.left.size, control[SEEDED] + quantum)
    while control[SEEDED] < end:
        state = control[SEEDED]
        if wave.left[state]:
            edge = max(control[EDGE], backward.first[state])
            while edge < backward.first[state + 1]:
                if _meets(backward, goal, edge) and not _touch_source(backward, wave, edge):
                    control[EDGE] = edge
                    return WAVE_FULL
                edge += 1
        control[EDGE] = -1
        control[SEEDED] = state + 1
    return WAVE_FULL if end < wave.left.size else WAVE_OVER


@loop
def run_wave(backward: Backward, wave: Wave, goal: Goal, quantum: int) -> int:
    """Continues the wave; returns WAVE_FULL if there is more to do once the outboxes are empty."""
    control = wave.control
    if control[SEEDED] < wave.left.size:
        if _look_through(backward, wave, goal, quantum) == WAVE_FULL:
            return WAVE_FULL
        control[EDGE] = -1
    done = 0
    while control[HEAD] < control[TAIL]:
        if done == quantum:
            return WAVE_FULL
        state = wave.queue[control[HEAD]]
        edge = max(control[EDGE], backward.first[state])
        while edge < backward.first[state + 1]:
            if not _touch_source(backward, wave, edge):
                control[EDGE] = edge
                return WAVE_FULL
            edge += 1
        control[EDGE] = -1
        control[HEAD] += 1
        done += 1
    return WAVE_OVER
