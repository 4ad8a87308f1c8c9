"""Follows what each process has in flight, event by event."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.history.witnesses import HELD_SHOWN, WITNESSES
from veristream.native.loop import loop

RECEIVED, ENDED, READY = 0, 1, 2

SHOWN = 2 + HELD_SHOWN
"""How many positions show an anomaly: the `READY`, and up to `HELD_SHOWN` receipts; -1 for none."""

# What a result has.
ASKED, OVERRUNS, RESULTS = 0, 1, 2


class Flights(NamedTuple):
    """Events of queues in the order of holder (a process and a subscription) and index.

    `item` is a message of a holder, or else (`known` is false) the receipts of a holder and partition whose
    producer is not known. `lifetime` is -1 if what is in flight does not end by itself. `counts` says that
    each receive is asked for; `follows` that the holder is compared with its limit.
    """

    kind: NDArray[np.int8]
    holder: NDArray[np.int32]
    process: NDArray[np.int32]
    at: NDArray[np.int64]  # its index
    time_ns: NDArray[np.int64]
    ready: NDArray[np.int64]
    item: NDArray[np.int32]
    known: NDArray[np.bool_]
    lifetime: NDArray[np.int64]
    counts: NDArray[np.bool_]
    follows: NDArray[np.bool_]


class Held(NamedTuple):
    """By position: whether the receipt is in flight, and the next of its item. By item: the first and the
    last position that may be in flight; -1 for none."""

    flying: NDArray[np.bool_]
    next: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]


class Ends(NamedTuple):
    """The indices of `OPEN` and `CLOSE`, by process; those of process p end at `end[p]`."""

    at: NDArray[np.int64]
    end: NDArray[np.int64]


class Overruns(NamedTuple):
    """Results: the counts, whether a limit could not be compared, which positions are anomalies, and what
    shows the first ones."""

    counts: NDArray[np.int64]
    uncompared: NDArray[np.bool_]
    position: NDArray[np.int64]
    shown: NDArray[np.int64]


@loop
def _end_oldest(held: Held, item: int) -> int:
    """Ends the oldest receipt of an item; returns how many that were (0 or 1)."""
    position = held.first[item]
    while position >= 0 and not held.flying[position]:
        position = held.next[position]
    if position < 0:
        held.first[item] = -1
        held.last[item] = -1
        return 0
    held.flying[position] = False
    held.first[item] = held.next[position]
    if held.first[item] < 0:
        held.last[item] = -1
    return 1


@loop
def _begin(held: Held, item: int, position: int) -> None:
    """Adds a receipt to an item."""
    held.flying[position] = True
    held.next[position] = -1
    if held.last[item] >= 0:
        held.next[held.last[item]] = position
    else:
        held.first[item] = position
    held.last[item] = position


@loop
def _show(held: Held, overruns: Overruns, limit: int, position: int, oldest: int) -> None:
    """Notes what shows an overrun, if it is one of the first."""
    number = overruns.counts[OVERRUNS]
    if number < WITNESSES:
        at = number * SHOWN
        overruns.position[number] = position
        overruns.shown[at] = limit
        at += 1
        last = at + HELD_SHOWN
        while position >= oldest and at < last:
            if held.flying[position]:
                overruns.shown[at] = position
                at += 1
            position -= 1
    overruns.counts[OVERRUNS] = number + 1


@loop
def follow(flights: Flights, held: Held, ends: Ends, overruns: Overruns) -> None:
    """Goes through all events; fills the results."""
    holder = -1
    count = 0  # in flight
    oldest = 0  # all positions of the holder before this one are no longer in flight
    ready = -1  # the position of the current limit
    earlier = -1  # that of the limit before, which remains for so many receives:
    remaining = 0
    end = 0
    for i in range(flights.kind.size):
        process = flights.process[i]
        if flights.holder[i] != holder:
            holder = flights.holder[i]
            count = 0
            oldest = i
            ready = -1
            remaining = 0
            end = ends.end[process - 1] if process > 0 else 0
        closed = False
        while end < ends.end[process] and ends.at[end] < flights.at[i]:
            closed = True
            end += 1
        lifetime = flights.lifetime[i]
        while oldest < i:
            if held.flying[oldest]:
                old = lifetime >= 0 and flights.time_ns[i] - flights.time_ns[oldest] > lifetime
                if not old and not closed:
                    break
                held.flying[oldest] = False
                count -= 1
            oldest += 1
        limit = earlier if remaining > 0 else ready
        kind = flights.kind[i]
        if kind == READY:
            if limit >= 0 and flights.ready[i] < flights.ready[limit]:
                earlier = limit
                remaining = max(flights.ready[limit] - count, 0)
            else:
                remaining = 0
            ready = i
        elif kind == ENDED:
            count -= _end_oldest(held, flights.item[i])
        else:
            if flights.known[i]:
                count -= _end_oldest(held, flights.item[i])
            _begin(held, flights.item[i], i)
            count += 1
            remaining = max(remaining - 1, 0)
            if limit >= 0 or flights.counts[i]:
                overruns.counts[ASKED] += 1
            if limit >= 0:
                if not flights.follows[i]:
                    overruns.uncompared[0] = True
                elif count > flights.ready[limit]:
                    _show(held, overruns, limit, i, oldest)
