"""`acknowledged means delivered`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.history.checks.table.calls import Clocks, Sends, begins, clocks, sends_of
from veristream.history.checks.table.table import Table, firsts, tell
from veristream.history.checks.table.tally import EFFECTIVE, RECEIVED
from veristream.history.events import NONE, Event, Operation, Outcome
from veristream.history.reasons import Evidence, merge
from veristream.history.witnesses import order_of

_KIND = "lost write"


class _Lost(NamedTuple):
    """Effective messages that were not received, though read to the end: of each the place, the
    subscription, the message, and the row of the first read that covers it."""

    place: NDArray[np.int64]
    group: NDArray[np.int64]
    message: NDArray[np.int64]
    read: NDArray[np.int64]


class _Reads(NamedTuple):
    """The reads to the end of a bucket, the first one first, with the rows with which their calls began."""

    row: NDArray[np.int64]
    begin: NDArray[np.int64]
    clock: Clocks


def find_lost(table: Table) -> Evidence:
    """Finds effective messages that were read to the end and not received."""
    reads = _reads(table)
    bits, logs = table.tally.bits, table.logs()
    effective = bits & EFFECTIVE != 0
    asked = int(np.count_nonzero(effective & logs))
    missing = np.flatnonzero(effective & logs & (bits & RECEIVED == 0))
    parts = [_tell(table, asked, len(missing), _lost_in_logs(table, missing, reads))]
    return merge([*parts, *_in_queues(table, reads)])


def _reads(table: Table) -> _Reads:
    rows = np.flatnonzero(table.of(Operation.READ_TO_END))
    keys = (table.rows[name][rows] for name in ("index", "process", "time_ns"))
    rows = rows[np.lexsort(tuple(keys))]
    return _Reads(rows, begins(table.rows, Operation.READ_TO_END, rows), clocks(table.context))


def _in_queues(table: Table, reads: _Reads) -> list[Evidence]:
    """Looks at each effective message with each subscription of its queue."""
    messages, rows = table.messages, table.rows
    receipts = table.queue_receipts()
    receipts = receipts[np.argsort(rows["stream"][receipts], kind="stable")]
    streams = table.places.stream[messages.place]  # ascending
    parts = []
    for stream in np.unique(streams[table.places.is_queue[messages.place]]).tolist():
        first, end = (int(messages.begin[np.searchsorted(streams, each)]) for each in (stream, stream + 1))
        effective = np.flatnonzero(table.tally.bits[first:end] & EFFECTIVE) + first
        groups = table.context.subscriptions.get(stream, ())
        if not groups:
            parts.append(Evidence(asked=len(effective), undecided=len(effective)))
        own = receipts[slice(*np.searchsorted(rows["stream"][receipts], (stream, stream + 1)))]
        for group in groups:
            received = np.zeros(end - first, np.bool_)
            received[messages.of_row[own[rows["group"][own] == group]] - first] = True
            missing = effective[~received[effective - first]]
            lost = _lost_in_queue(table, missing, group, reads)
            parts.append(_tell(table, len(effective), len(missing), lost))
    return parts


def _sends(table: Table, messages: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the rows of all sends of some messages."""
    chosen = np.zeros(table.messages.total + 1, np.bool_)  # the last one stands for no message
    chosen[messages] = True
    return np.flatnonzero((table.rows["operation"] == Operation.SEND) & chosen[table.messages.of_row])


def _lost_in_logs(table: Table, missing: NDArray[np.int64], reads: _Reads) -> _Lost:
    """Finds those whose offset was read, and those without one that were sent before a read from 0."""
    read_of = np.full(table.messages.total, -1, np.int64)
    if missing.size and reads.row.size:
        rows, of_row = _sends(table, missing), table.messages.of_row
        accepted = rows[table.rows["outcome"][rows] == Outcome.OK]
        if table.committed.size:
            accepted = accepted[table.committed[accepted]]
        stored = accepted[table.rows["offset"][accepted] != NONE]
        placed = np.zeros(table.messages.total + 1, np.bool_)
        placed[of_row[stored]] = True
        sends = sends_of(table.rows, of_row, rows[~placed[of_row[rows]]])
        place = table.places.of_row
        for read, begin in zip(reads.row[::-1].tolist(), reads.begin[::-1].tolist(), strict=True):
            inside = stored[place[stored] == place[read]]
            offset = table.rows["offset"][inside]
            covered = (offset >= table.rows["number"][read]) & (offset < table.rows["offset"][read])
            read_of[of_row[inside[covered]]] = read
            if table.rows["number"][read] == 0:
                read_of[_sent_before(table, sends, begin, reads.clock)] = read
    return _lost(table, missing, read_of, NONE)


def _lost_in_queue(table: Table, missing: NDArray[np.int64], group: int, reads: _Reads) -> _Lost:
    """Finds those of one queue that were sent before a read of their partition by a subscription."""
    rows = table.rows
    of_group = np.flatnonzero(rows["group"][reads.row] == group)
    if missing.size:
        stream = table.places.stream[table.messages.place[table.messages.pair_of(missing[:1])]]
        of_group = of_group[rows["stream"][reads.row[of_group]] == stream]
    if not (missing.size and of_group.size):
        return _lost(table, missing[:0], missing, group)
    read_of = np.full(table.messages.total, -1, np.int64)
    sends = sends_of(rows, table.messages.of_row, _sends(table, missing))
    for each in of_group[::-1].tolist():
        read_of[_sent_before(table, sends, int(reads.begin[each]), reads.clock)] = reads.row[each]
    return _lost(table, missing, read_of, group)


def _sent_before(table: Table, sends: Sends, begin: int, clock: Clocks) -> NDArray[np.int64]:
    """Returns the messages of the partition of a read of which every call ended before it began."""
    place = table.messages.place[table.messages.pair_of(sends.message)]
    inside = place == table.places.of_row[begin]
    before = sends.before(table.rows, begin, clock)
    messages = sends.message[inside]
    return messages[~np.isin(messages, messages[~before[inside]])]


def _lost(table: Table, missing: NDArray[np.int64], read_of: NDArray[np.int64], group: int) -> _Lost:
    lost = missing[read_of[missing] >= 0]
    place = table.messages.place[table.messages.pair_of(lost)].astype(np.int64)
    return _Lost(place, np.full(len(lost), group), lost, read_of[lost])


def _tell(table: Table, asked: int, missing: int, lost: _Lost) -> Evidence:
    undecided = missing - len(lost.message)
    if not table.context.manifest.complete:
        return Evidence(asked=asked, undecided=undecided)
    order = np.lexsort((lost.message, lost.group, lost.place))
    shown = []
    for each in firsts(order):
        message, group = int(lost.message[each]), int(lost.group[each])
        events = _shown(table, message, int(lost.read[each]))
        shown.append((table.anomaly(_KIND, message, group), events))
    return tell(table, shown, asked=asked, undecided=undecided, counts={_KIND: len(order)})


def _shown(table: Table, message: int, read: int) -> list[Event]:
    sent = table.first(table.effective(message))
    events = [sent, *table.rows.events([read])]
    control = table.context.control
    if sent.transaction != NONE:
        ends = (control["operation"] == Operation.END_COMMIT) & (control["outcome"] == Outcome.OK)
        ends &= (control["process"] == sent.process) & (control["transaction"] == sent.transaction)
        events.append(min(control.events(np.flatnonzero(ends)), key=order_of))
    return events
