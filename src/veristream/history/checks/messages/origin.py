"""`nothing from nowhere`."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.history.checks.table.calls import sends_of
from veristream.history.checks.table.codes import encode_all
from veristream.history.checks.table.table import Table, firsts, tell
from veristream.history.checks.table.tally import ALTERED, BEGUN, FAILED, RECEIVED, SURE
from veristream.history.events import Event, Operation, Outcome
from veristream.history.reasons import Evidence, merge
from veristream.history.verdicts import Anomaly
from veristream.native.loop import loop

_RECEIVE = Operation.RECEIVE.value
_UNEXPECTED, _ALTERED = "unexpected", "altered"


def find_unknown(table: Table) -> Evidence:
    """Finds received messages that nobody can have sent, and receipts with other bytes than were sent."""
    parts = [Evidence(asked=int(np.count_nonzero(table.rows["operation"] == Operation.RECEIVE)))]
    manifest = table.context.manifest
    if manifest.complete and manifest.producers_complete:
        parts += [_unexpected(table), _undecoded(table)]
    return merge([*parts, _altered(table)])


def _unexpected(table: Table) -> Evidence:
    found = np.flatnonzero((table.tally.bits & (RECEIVED | SURE)) == RECEIVED)
    found = found[~_unanswered(table, found)]
    shown: list[tuple[Anomaly, list[Event]]] = []
    for message in firsts(found):
        events = [table.first(table.of_message(message, Operation.RECEIVE))]
        sends = table.of_message(message, Operation.SEND)
        failed = sends[table.rows["outcome"][sends] == Outcome.FAIL]
        if failed.size:
            events.append(table.first(failed))
        shown.append((table.anomaly(_UNEXPECTED, message), events))
    return tell(table, shown, counts={_UNEXPECTED: len(found)})


def _unanswered(table: Table, messages: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Returns which messages have a call that did not end; their other calls failed."""
    bits = table.tally.bits[messages]
    found = (bits & BEGUN != 0) & (bits & FAILED == 0)
    unclear = messages[(bits & BEGUN != 0) & (bits & FAILED != 0)]
    if unclear.size:
        of_row = table.messages.of_row
        rows = np.flatnonzero((table.rows["operation"] == Operation.SEND) & (of_row >= 0))
        rows = rows[np.isin(of_row[rows], unclear)]
        sends = sends_of(table.rows, of_row, rows)
        found |= np.isin(messages, sends.message[~sends.ended])
    return found


def _undecoded(table: Table) -> Evidence:
    rows = np.flatnonzero(table.of(Operation.RECEIVE) & (table.rows["producer"] < 0))
    if not rows.size:
        return Evidence()
    # By anomaly: without a producer, the number comes before process and index.
    keys = [table.rows[name][rows] for name in ("index", "process", "number")]
    rows = rows[np.lexsort((*keys, table.places.of_row[rows]))]
    shown: list[tuple[Anomaly, list[Event]]] = []
    for row in firsts(rows):
        (event,) = table.rows.events([row])
        anomaly = replace(table.anomaly_at(_UNEXPECTED, row), number=event.number)
        shown.append((anomaly, [event]))
    return tell(table, shown, counts={_UNEXPECTED: len(rows)})


class Received(NamedTuple):
    """The rows, and the digest with which each message was sent, or 0."""

    operation: NDArray[np.int8]
    message: NDArray[np.int32]
    digest: NDArray[np.int64]
    sent: NDArray[np.int64]


@loop
def differing(received: Received, found: NDArray[np.int64]) -> int:
    """Finds the receipts whose digest is not that with which their message was sent; returns how many, of
    which those are in `found` for which it has room."""
    count = 0
    for i in range(received.operation.size):
        if received.operation[i] == _RECEIVE and received.message[i] >= 0 and received.digest[i] != 0:
            sent = received.sent[received.message[i]]
            if sent != 0 and sent != received.digest[i]:
                if count < found.size:
                    found[count] = i
                count += 1
    return count


def _altered(table: Table) -> Evidence:
    of_row, digest = table.messages.of_row, table.rows["digest"]
    received = Received(table.rows["operation"], of_row, digest, table.tally.digest)
    rows = np.empty(differing(received, np.empty(0, np.int64)), np.int64)
    if not rows.size:
        return Evidence()
    differing(received, rows)
    several = table.tally.bits[of_row[rows]] & ALTERED != 0
    if several.any():
        rows = rows[~_sent_so(table, rows)]
    rows = rows[table.in_order(rows)]
    shown: list[tuple[Anomaly, list[Event]]] = []
    for row in firsts(rows):
        sends = table.of_message(int(of_row[row]), Operation.SEND)
        first = table.first(sends[digest[sends] != 0])
        shown.append((table.anomaly_at(_ALTERED, row), [*table.rows.events([row]), first]))
    return tell(table, shown, counts={_ALTERED: len(rows)})


def _sent_so(table: Table, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Returns which receipts have the digest of any send of their message."""
    of_row, digest = table.messages.of_row, table.rows["digest"]
    sends = np.flatnonzero((table.rows["operation"] == Operation.SEND) & (of_row >= 0) & (digest != 0))
    sends = sends[np.isin(of_row[sends], of_row[rows])]
    both = np.concatenate((sends, rows))
    codes, _ = encode_all(of_row[both], digest[both])
    return np.isin(codes[len(sends) :], codes[: len(sends)])
