"""The mistake that once made the search three times slower: the body of the innermost loop in a function of
its own, which takes named tuples of arrays, compiled by Numba alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Words = NDArray[np.int64]


class Work(NamedTuple):
    """What workers share."""

    counts: Words
    cursors: Words
    ends: Words


class Own(NamedTuple):
    """What one worker has to itself."""

    rows: Words
    prints: Words
    table: Words
    hits: Words
    tally: Words


@njit
def observe(work, own, index):  # type: ignore[no-untyped-def]
    """Notes what holds in a new state."""
    bits = own.rows[index] ^ own.hits[0]
    while bits != 0:
        if bits & 1:
            own.hits[bits % own.hits.size] = index
        bits >>= 1
    for k in range(work.cursors.size):
        if work.cursors[k] > work.ends[k]:
            own.tally[k] = work.ends[k]


@njit
def keep(work, own, row, fresh):  # type: ignore[no-untyped-def]
    """Finds or adds a row."""
    position = own.prints[row] % own.table.size
    while own.table[position] != 0:
        if own.rows[own.table[position] - 1] == own.rows[row]:
            return own.table[position] - 1
        position = (position + 1) % own.table.size
    own.table[position] = fresh + 1
    observe(work, own, fresh)
    return fresh


@njit
def look_up(work: Work, own: Own, used: int) -> None:
    """The innermost loop: finds or adds every row in the buffer."""
    for row in range(used):
        fresh = work.counts[0]
        if keep(work, own, row, fresh) == fresh:
            work.counts[0] = fresh + 1
