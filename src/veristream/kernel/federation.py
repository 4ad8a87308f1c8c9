"""Federations: unions of zones, the results of subtracting zones.

A federation is a two-dimensional array with a zone in each of its first rows.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from veristream.kernel.zones import Zone, complement, constrain, copy, is_empty, meets
from veristream.native.loop import loop

Federation = Annotated[NDArray[np.int32], 2]

NO_ROOM = -1


@loop
def subtract_after(d: Zone, other: Zone, n: int, out: Federation, first: int, room: Zone) -> int:
    """Writes d without the other zone, as disjoint zones, to the rows of out from `first` on.

    Returns the row after the last one, or NO_ROOM; `room` is for a zone.
    """
    row = first
    if is_empty(d):
        return row
    if not meets(d, other, n, room):
        if row == len(out):
            return NO_ROOM
        copy(d, out[row], n)
        return row + 1
    rest = room
    copy(d, rest, n)
    for i in range(n):
        for j in range(n):
            bound = other[i * n + j]
            if rest[i * n + j] <= bound:
                continue
            if row == len(out):
                return NO_ROOM
            copy(rest, out[row], n)
            constrain(out[row], n, j, i, complement(bound))
            constrain(rest, n, i, j, bound)
            row += 1
    return row


def subtract(d: Zone, other: Zone, n: int, out: Federation) -> int:
    """Writes d without the other zone as disjoint zones to the first rows of out; returns their count.

    There are at most n*n - n zones, but out needs at least one row.
    """
    return subtract_after(d, other, n, out, 0, np.empty(n * n, np.int32))


@loop
def subtract_all(pieces: Federation, count: int, other: Zone, n: int, out: Federation, room: Zone) -> int:
    """Subtracts the other zone from the first `count` zones; returns their count, or NO_ROOM;
    `room` is for a zone.

    Disjoint pieces result in disjoint zones. The arrays must not be the same.
    """
    row = 0
    for k in range(count):
        row = subtract_after(pieces[k], other, n, out, row, room)
        if row == NO_ROOM:
            return NO_ROOM
    return row
