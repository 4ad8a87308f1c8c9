"""`at most once`."""

from __future__ import annotations

import numpy as np

from veristream.history.checks.table.codes import encode_all
from veristream.history.checks.table.table import Table, first_row, firsts, tell
from veristream.history.checks.table.tally import AGAIN, RECEIVED, SENT
from veristream.history.events import Event, Operation
from veristream.history.reasons import Evidence, merge
from veristream.history.verdicts import Anomaly

_KIND = "duplicate"


def find_duplicates(table: Table) -> Evidence:
    """Finds messages at two offsets of a log, and those that a subscription of a queue received twice."""
    return merge([_in_logs(table), _in_queues(table)])


def _in_logs(table: Table) -> Evidence:
    bits, logs = table.tally.bits, table.logs()
    asked = np.count_nonzero(((bits & (SENT | RECEIVED)) == SENT | RECEIVED) & logs)
    found = np.flatnonzero((bits & AGAIN != 0) & logs)
    shown = [(table.anomaly(_KIND, message), _at_two_offsets(table, message)) for message in firsts(found)]
    return tell(table, shown, asked=asked, counts={_KIND: len(found)})


def _at_two_offsets(table: Table, message: int) -> list[Event]:
    rows = table.of_message(message, Operation.RECEIVE)
    offsets = table.rows["offset"][rows]
    return [table.first(rows[offsets == each]) for each in np.unique(offsets)[:2]]


def _in_queues(table: Table) -> Evidence:
    rows = table.queue_receipts()
    if not rows.size:
        return Evidence()
    message, group = table.messages.of_row[rows], table.rows["group"][rows]
    codes, (messages, groups) = encode_all(message, group)
    asked = np.count_nonzero(table.tally.bits[messages] & SENT)
    found = np.flatnonzero(np.bincount(codes) > 1)
    place = table.messages.place[table.messages.pair_of(messages[found])]
    found = found[np.lexsort((messages[found], groups[found], place))]
    shown: list[tuple[Anomaly, list[Event]]] = []
    for each in firsts(found):
        receipts = rows[codes == each]
        one = first_row(table.rows, receipts)
        other = first_row(table.rows, receipts[receipts != one])
        anomaly = table.anomaly(_KIND, int(messages[each]), int(groups[each]))
        shown.append((anomaly, list(table.rows.events([one, other]))))
    return tell(table, shown, asked=asked, counts={_KIND: len(found)})
