"""Shorter runs: a depth-first search finds long ones, which often pass near the goal long before the end.

The states of the run, with all steps between them, form a small graph. The shortest way through it is
found breadth-first; it ends as soon as a step leads to the goal, even in a state that is not part of the
run. There may be shorter runs through other states.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.kernel.layout import Row
from veristream.native.loop import loop
from veristream.native.primitives import call_1, call_4, load_word, store_word
from veristream.search.reach.expand import ACTION_HIT, DEADLOCK, Code
from veristream.search.reach.visited import fingerprint, home, same_row

BUFFER = 2048


class Run(NamedTuple):
    """The states of a run by position, with room for one more at the end, and what a search needs."""

    rows: NDArray[np.int64]
    positions: NDArray[np.int64]  # by fingerprint: a position plus 1, or 0
    before: NDArray[np.int64]  # the position from which each one is reached; -1 if it is not
    queue: NDArray[np.int64]


class Buffer(NamedTuple):
    """Room for the steps of a state."""

    rows: NDArray[np.int64]
    actions: NDArray[np.int64]


@loop
def _place(run, row, width):  # type: ignore[no-untyped-def]
    """Where the row's position is, or where it would be entered."""
    slots = run.positions.size
    place = home(fingerprint(row, width), slots)
    while run.positions[place] != 0:
        known = run.rows.ctypes.data + 8 * width * (run.positions[place] - 1)
        if same_row(known, row, width):
            break
        place += 1
        if place == slots:
            place = 0
    return place


@loop
def enter_all(run: Run, count: int, width: int) -> None:
    """Enters the positions of the first `count` states."""
    for position in range(count):
        place = _place(run, run.rows.ctypes.data + 8 * width * position, width)
        run.positions[place] = position + 1


@loop
def _is_goal(code, row, kind):  # type: ignore[no-untyped-def]
    """Whether the state is what a hit of this kind is about."""
    if kind >= ACTION_HIT:
        return False
    bits = call_1(code.propositions, row)
    return bits >= 0 and (bits >> kind) & 1 != 0


@loop
def find_way(code: Code, run: Run, buffer: Buffer, width: int, kind: int) -> int:
    """Finds the shortest way from the first state to a goal; returns the position of its last state, or -1
    if the buffer is too small. Hits of steps are about a state that has such a step."""
    last = run.before.size - 2
    rows, out = run.rows.ctypes.data, buffer.rows.ctypes.data
    is_step = ACTION_HIT <= kind < DEADLOCK
    run.queue[0] = 0
    done, reached = 0, 1
    while done < reached:
        here = run.queue[done]
        done += 1
        if here == last and not is_step:
            break
        row = rows + 8 * width * here
        count = call_4(code.successors, row, out, buffer.actions.ctypes.data, buffer.actions.size)
        if count < 0:
            return -1
        for k in range(count):
            entry = buffer.actions[k]
            if entry < 0:
                continue
            if is_step and (entry >> (32 + kind - ACTION_HIT)) & 1 != 0:
                return here
            row = out + 8 * width * k
            found = run.positions[_place(run, row, width)] - 1
            if found > 0 and run.before[found] < 0:
                run.before[found] = here
                run.queue[reached] = found
                reached += 1
            elif found < 0 and _is_goal(code, row, kind):
                for word in range(width):
                    store_word(rows + 8 * (width * (last + 1) + word), load_word(row + 8 * word))
                run.before[last + 1] = here
                return last + 1
    return last


def shorten(code: Code, rows: NDArray[np.int64], kind: int) -> list[Row]:
    """The rows of a run that is as short as the steps between the given rows of a run allow.

    The run ends where a hit of the given kind is: in the last row, or in one that comes earlier."""
    count, width = rows.shape
    room = np.concatenate([rows.reshape(-1), np.zeros(width, np.int64)])
    slots = 2 * count + 2
    run = Run(room, np.zeros(slots, np.int64), np.full(count + 1, -1, np.int64), np.zeros(count, np.int64))
    enter_all(run, count, width)
    capacity = BUFFER
    while True:
        buffer = Buffer(np.zeros(capacity * width, np.int64), np.zeros(capacity, np.int64))
        end = int(find_way(code, run, buffer, width, kind))
        if end >= 0:
            break
        capacity *= 4
        run.before[:] = -1
    way = [end]
    while way[-1] != 0:
        way.append(int(run.before[way[-1]]))
    found = room.reshape(-1, width).view(np.uint64)
    return [found[position] for position in reversed(way)]
