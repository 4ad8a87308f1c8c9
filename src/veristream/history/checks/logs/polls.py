"""`order` of the receives from logs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.history.checks.table.codes import encode, encode_all
from veristream.history.checks.table.table import Table, firsts, tell
from veristream.history.events import NONE, Event, Operation
from veristream.history.reasons import Evidence, merge
from veristream.native.loop import loop

_BACK, _SKIPPED = "nonmonotonic poll", "skipped poll"
_RECEIVE = Operation.RECEIVE.value
_ASSIGN, _SEEK = Operation.ASSIGN.value, Operation.SEEK.value  # and REVOKE between them
_OFFSET_BITS = 40  # longer offsets are replaced by their ranks
_READERS_MAX = 1 << 22  # pairs of a partition and a process that have a place in a table

DISORDER = -1
"""What `follow` returns if rows of a process are not in the order of their index."""


class Polled(NamedTuple):
    """The rows, and the reader of each: `place * width + process * step`. `order` may be empty."""

    operation: NDArray[np.int8]
    at: NDArray[np.int64]  # its index
    offset: NDArray[np.int64]
    place: NDArray[np.int32]
    process: NDArray[np.int32]
    is_log: NDArray[np.bool_]
    order: NDArray[np.int64]
    width: int
    step: int


class Sessions(NamedTuple):
    """Of each reader its last row, that row's index and offset, and the next break of its process."""

    row: NDArray[np.int64]
    at: NDArray[np.int64]
    offset: NDArray[np.int64]
    next: NDArray[np.int64]


class Breaks(NamedTuple):
    """The indices of `OPEN` and `CLOSE`, by process; those of process p end at `end[p]`."""

    at: NDArray[np.int64]
    end: NDArray[np.int64]


class Pairs(NamedTuple):
    """Room for pairs of consecutive receives, with the count in the last item of `before`."""

    before: NDArray[np.int64]
    after: NDArray[np.int64]


@loop
def _put(pairs: Pairs, before: int, after: int) -> None:
    """Adds a pair, or only counts it if there is no room."""
    room = pairs.after.size
    count = pairs.before[room]
    if count < room:
        pairs.before[count] = before
        pairs.after[count] = after
    pairs.before[room] = count + 1


@loop
def follow(polled: Polled, sessions: Sessions, breaks: Breaks, back: Pairs, gaps: Pairs) -> int:
    """Compares consecutive receives of each session; returns how many, or `DISORDER`.

    Puts into `back` those whose offset does not grow, and into `gaps` those between which there are others.
    """
    asked = 0
    ordered = polled.order.size > 0
    for k in range(polled.order.size if ordered else polled.operation.size):
        i = polled.order[k] if ordered else k
        operation = polled.operation[i]
        receives = operation == _RECEIVE
        if not receives and (operation < _ASSIGN or operation > _SEEK):
            continue
        place = polled.place[i]
        if not polled.is_log[place]:
            continue
        process = polled.process[i]
        reader = place * polled.width + process * polled.step
        index = polled.at[i]
        if index < sessions.at[reader]:
            return DISORDER
        sessions.at[reader] = index
        coming = sessions.next[reader]
        if coming < breaks.end[process] and breaks.at[coming] < index:
            sessions.row[reader] = -1
            while coming < breaks.end[process] and breaks.at[coming] < index:
                coming += 1
            sessions.next[reader] = coming
        if not receives:
            sessions.row[reader] = -1
            continue
        offset = polled.offset[i]
        last = sessions.row[reader]
        if last >= 0:
            asked += 1
            step = offset - sessions.offset[reader]
            if step <= 0:
                _put(back, last, i)
            elif step > 1:
                _put(gaps, last, i)
        sessions.row[reader] = i
        sessions.offset[reader] = offset
    return asked


def find_broken_polls(table: Table) -> Evidence:
    """Finds receives of a session that go back, and those that skip an effective message."""
    asked, back, gaps = _compare(table)
    parts = [Evidence(asked=asked)]
    if table.context.manifest.complete:
        parts += _tell(table, _BACK, back)
        if gaps.after.size:
            parts += _tell(table, _SKIPPED, _skipping(table, gaps))
    return merge(parts)


def _compare(table: Table) -> tuple[int, Pairs, Pairs]:
    """Returns how many receives were compared, those that go back, and those with others between."""
    breaks = _breaks(table)
    polled, process = _polled(table)
    first = np.append(0, breaks.end[:-1])[process]
    sizes = [1024, 1024]
    while True:
        row, index, offset = (np.full(len(process), NONE, np.int64) for _ in range(3))
        back, gaps = (Pairs(np.zeros(size + 1, np.int64), np.empty(size, np.int64)) for size in sizes)
        asked = follow(polled, Sessions(row, index, offset, first.copy()), breaks, back, gaps)
        counts = [int(each.before[-1]) for each in (back, gaps)]
        if asked == DISORDER:
            polled = polled._replace(order=np.lexsort((polled.at, polled.process)))
        elif counts[0] <= sizes[0] and counts[1] <= sizes[1]:
            return asked, _cut(back), _cut(gaps)
        else:
            sizes = [max(each) for each in zip(counts, sizes, strict=True)]


def _cut(pairs: Pairs) -> Pairs:
    count = int(pairs.before[-1])
    return Pairs(pairs.before[:count], pairs.after[:count])


def _breaks(table: Table) -> Breaks:
    control = table.context.control
    rows = np.flatnonzero(np.isin(control["operation"], (Operation.OPEN, Operation.CLOSE)))
    process = control["process"][rows]  # in order
    processes = np.arange(len(table.context.manifest.processes))
    return Breaks(control["index"][rows], np.searchsorted(process, processes, side="right"))


def _polled(table: Table) -> tuple[Polled, NDArray[np.int64]]:
    """Returns the rows with their readers, and the process of each reader."""
    rows, places = table.rows, table.places
    processes = len(table.context.manifest.processes)
    place, width, step, is_log = places.of_row, processes, 1, places.is_log
    process = np.tile(np.arange(processes), len(is_log))
    if len(is_log) * processes > _READERS_MAX:
        place, (of, process) = encode_all(places.of_row, rows["process"])
        width, step, is_log = 1, 0, is_log[of]
    polled = Polled(
        rows["operation"],
        rows["index"],
        rows["offset"],
        place,
        rows["process"],
        is_log,
        np.empty(0, np.int64),
        width,
        step,
    )
    return polled, process


def _skipping(table: Table, gaps: Pairs) -> Pairs:
    """Returns those pairs of receives between whose offsets an effective message is."""
    giving = np.flatnonzero(table.giving())
    rows = np.concatenate((giving, gaps.before, gaps.after))
    offset = table.rows["offset"][rows]
    if offset.max(initial=0) >> _OFFSET_BITS:
        offset = encode(offset)[0].astype(np.int64)
    keys = (table.places.of_row[rows].astype(np.int64) << _OFFSET_BITS) + offset
    stored = np.sort(keys[: len(giving)])
    before, after = keys[len(giving) : len(giving) + len(gaps.before)], keys[len(rows) - len(gaps.after) :]
    between = np.searchsorted(stored, after) > np.searchsorted(stored, before, side="right")
    return Pairs(gaps.before[between], gaps.after[between])


def _tell(table: Table, kind: str, pairs: Pairs) -> list[Evidence]:
    rows = table.rows
    same = rows["call"][pairs.before] == rows["call"][pairs.after]  # they are of one process
    parts = []
    for name, which in ((kind, ~same), (f"int-{kind}", same)):
        before, after = pairs.before[which], pairs.after[which]
        order = table.in_order(after)
        shown = []
        for each in firsts(order):
            events = list(rows.events([before[each], after[each]]))
            if kind == _SKIPPED:
                events.append(_skipped(table, int(before[each]), int(after[each])))
            shown.append((table.anomaly_at(name, int(after[each])), events))
        parts.append(tell(table, shown, counts={name: len(order)}))
    return parts


def _skipped(table: Table, before: int, after: int) -> Event:
    """Returns the event that shows what was skipped between two rows."""
    offset, of_row = table.rows["offset"], table.messages.of_row
    rows = np.flatnonzero(table.giving() & (table.places.of_row == table.places.of_row[after]))
    rows = rows[(offset[rows] > offset[before]) & (offset[rows] < offset[after])]
    rows = rows[offset[rows] == offset[rows].min()]
    return table.first(rows[of_row[rows] == of_row[rows].min()])
