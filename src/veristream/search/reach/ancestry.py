"""The path to a state, found again: in each level, the first state from which a step leads to the next one.

The states of a level are expanded again until one is found, so a path costs at most as much as the search
without its look-ups. With one worker, the path is the one along which the states were found.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from veristream.native.loop import loop
from veristream.native.primitives import call_4, half_at, load_word
from veristream.search.reach.expand import ARENA_SIZE, LEVELS, STRIDE, Code, Own, Work
from veristream.search.reach.packing import unpack
from veristream.search.reach.visited import Store, same_row

NOTHING = -1
SMALL_BUFFER = -2


@loop
def _first_source(code, store, own, first, last, target):  # type: ignore[no-untyped-def]
    """The first of the states from which a step leads to the row; or NOTHING, or SMALL_BUFFER."""
    rows, actions = own.out_rows.ctypes.data, own.out_actions.ctypes.data
    size = 8 * store.word_count
    for index in range(first, last):
        row = unpack(store, index, own.scratch.ctypes.data)
        count = call_4(code.successors, row, rows, actions, own.out_actions.size)
        if count < 0:
            return SMALL_BUFFER
        for k in range(count):
            if own.out_actions[k] >= 0 and same_row(rows + size * k, target, store.word_count):
                return index
    return NOTHING


@loop
def _source(code, store, work, own, level, target):  # type: ignore[no-untyped-def]
    """The first state of the level from which a step leads to the row; or NOTHING, or SMALL_BUFFER."""
    arenas = work.ends.size // STRIDE
    for arena in range(arenas):
        base = arena * work.control[ARENA_SIZE]
        first = base + half_at(work.control[LEVELS], level * arenas + arena)
        last = base + half_at(work.control[LEVELS], (level + 1) * arenas + arena)
        found = _first_source(code, store, own, first, last, target)
        if found != NOTHING:
            return found
    return NOTHING


@loop
def walk_back(
    code: Code,
    store: Store,
    work: Work,
    own: Own,
    level: int,
    path: NDArray[np.int64],
    row: NDArray[np.int64],
) -> int:
    """Writes the ancestors of path[level], a state of that level, before it. Returns 0, or the level at
    which the buffer was too small, or NOTHING if a state has no predecessor. `row` is scratch."""
    while level > 0:
        source = unpack(store, path[level], own.scratch.ctypes.data)
        for k in range(store.word_count):
            row[k] = load_word(source + 8 * k)
        found = _source(code, store, work, own, level - 1, row.ctypes.data)
        if found == SMALL_BUFFER:
            return level
        if found == NOTHING:
            return NOTHING
        level -= 1
        path[level] = found
    return 0


def level_of(levels: NDArray[np.uint32], work: Work, index: int, depth: int) -> int:
    """The level of a state. `levels` has the first state of each level in each arena; that of the level
    after the current one is added."""
    arenas = work.ends.size // STRIDE
    size = int(work.control[ARENA_SIZE])
    for arena in range(arenas):
        levels[(depth + 1) * arenas + arena] = int(work.ends[arena * STRIDE]) - arena * size
    arena, number = (index // size, index % size) if arenas > 1 else (0, index)
    starts = levels[arena : (depth + 2) * arenas : arenas]
    return int(np.searchsorted(starts, number, side="right")) - 1
