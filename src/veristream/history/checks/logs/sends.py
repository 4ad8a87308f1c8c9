"""`order` of the sends to logs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.history.checks.table.table import Table, firsts, tell
from veristream.history.checks.table.tally import ACKNOWLEDGED, RECEIVED
from veristream.history.events import NONE, Event, Operation
from veristream.history.reasons import Evidence, merge
from veristream.native.loop import loop

_KINDS = ("nonmonotonic send", "int-nonmonotonic send")


class Stored(NamedTuple):
    """What says where each message is: its bits, its stored row, its lowest received offset."""

    bits: NDArray[np.int16]
    row: NDArray[np.int64]
    lowest: NDArray[np.int64]
    offset: NDArray[np.int64]  # by row


class Swaps(NamedTuple):
    """Room for the anomalies: the message before and the message."""

    before: NDArray[np.int64]
    after: NDArray[np.int64]


@loop
def follow(stored: Stored, begin: NDArray[np.int64], is_log: NDArray[np.bool_], swaps: Swaps) -> int:
    """Compares the neighbours of each pair of a partition and a producer; returns how many it compared.

    The number of anomalies is left in the last item of `swaps.before`; those without room are only counted.
    """
    asked = 0
    count = 0
    room = swaps.after.size
    for pair in range(begin.size - 1):
        if not is_log[pair]:
            continue
        last = -1
        last_offset = -1
        for message in range(begin[pair], begin[pair + 1]):
            bits = stored.bits[message]
            if bits & ACKNOWLEDGED == 0:
                continue
            row = stored.row[message]
            if row >= 0:
                offset = stored.offset[row]
            elif bits & RECEIVED != 0:
                offset = stored.lowest[message]
            else:
                continue
            if last >= 0:
                asked += 1
                if offset < last_offset:
                    if count < room:
                        swaps.before[count] = last
                        swaps.after[count] = message
                    count += 1
            last = message
            last_offset = offset
    swaps.before[room] = count
    return asked


def find_swapped_sends(table: Table) -> Evidence:
    """Finds messages with a lower offset than one that their producer sent before."""
    stored = Stored(table.tally.bits, table.tally.stored, table.tally.lowest, table.rows["offset"])
    is_log = table.places.is_log[table.messages.place] & (
        table.places.partition[table.messages.place] != NONE
    )
    room = 1024
    while True:
        swaps = Swaps(np.empty(room + 1, np.int64), np.empty(room, np.int64))
        asked = follow(stored, table.messages.begin, is_log, swaps)
        count = int(swaps.before[room])
        if count <= room:
            break
        room = count
    before, after = swaps.before[:count], swaps.after[:count]
    one, other = _sending(table, before), _sending(table, after)
    same = np.ones(count, np.bool_)
    for name in ("process", "call"):
        same &= table.rows[name][one] == table.rows[name][other]
    parts = [Evidence(asked=asked)]
    for kind, which in zip(_KINDS, (~same, same), strict=True):
        found = np.flatnonzero(which)
        shown = []
        for each in firsts(found):
            messages = int(before[each]), int(after[each])
            anomaly = table.anomaly(kind, messages[1])
            shown.append((anomaly, [_giving(table, message) for message in messages]))
        parts.append(tell(table, shown, counts={kind: len(found)}))
    return merge(parts)


def _sending(table: Table, messages: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the OK row of each message: that with its offset, else the first by process and index."""
    found = table.tally.stored[messages]
    without = np.unique(messages[found < 0])
    if without.size:
        of_row = table.messages.of_row
        rows = np.flatnonzero(table.of(Operation.SEND) & (of_row >= 0))
        rows = rows[np.isin(of_row[rows], without)]
        keys = (table.rows["index"][rows], table.rows["process"][rows], of_row[rows])
        rows = rows[np.lexsort(keys)]
        first = rows[np.unique(of_row[rows], return_index=True)[1]]  # of each of `without`
        found = np.where(
            found < 0, first[np.searchsorted(without, messages).clip(0, len(first) - 1)], found
        )
    return found


def _giving(table: Table, message: int) -> Event:
    """Returns the event that gives a message its offset."""
    row = int(table.tally.stored[message])
    if row >= 0:
        return table.rows.events([row])[0]
    rows = table.of_message(message, Operation.RECEIVE)
    return table.first(rows[table.rows["offset"][rows] == table.tally.lowest[message]])
