"""The table of a bucket: its rows, their partitions and messages, and what is known of each message."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristream.history.checks.context import Context
from veristream.history.checks.rows import Rows
from veristream.history.checks.table.numbering import Messages, number_messages
from veristream.history.checks.table.places import Places, number_places
from veristream.history.checks.table.strays import committed, with_strays
from veristream.history.checks.table.tally import EFFECTIVE, Tally, Told, collect
from veristream.history.events import NONE, Event, Operation, Outcome
from veristream.history.reasons import Evidence
from veristream.history.verdicts import Anomaly
from veristream.history.witnesses import WITNESSES, make_witness


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a bucket, with the strays that its messages have; see the modules of its parts."""

    rows: Rows
    context: Context
    places: Places
    messages: Messages
    tally: Tally
    committed: NDArray[np.bool_]

    def of(self, operation: Operation, outcome: Outcome = Outcome.OK) -> NDArray[np.bool_]:
        """Returns which rows are of an operation and an outcome."""
        found: NDArray[np.bool_] = self.rows["operation"] == operation
        found &= self.rows["outcome"] == outcome
        return found

    def in_log(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Returns those of some rows that are in a log."""
        return rows[self.places.is_log[self.places.of_row[rows]]]

    def in_queue(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Returns those of some rows that are in a queue."""
        return rows[self.places.is_queue[self.places.of_row[rows]]]

    def queue_receipts(self) -> NDArray[np.int64]:
        """Returns the receipts of messages from queues."""
        if not self.places.is_queue.any():
            return np.empty(0, np.int64)
        return self.in_queue(np.flatnonzero(self.of(Operation.RECEIVE) & (self.messages.of_row >= 0)))

    def logs(self) -> NDArray[np.bool_]:
        """Returns which messages are in a log."""
        counts = np.diff(self.messages.begin)
        return np.repeat(self.places.is_log[self.messages.place], counts)

    def of_message(self, message: int, *operations: Operation) -> NDArray[np.int64]:
        """Returns the rows of a message that have one of some operations."""
        rows = np.flatnonzero(self.messages.of_row == message)
        return rows[np.isin(self.rows["operation"][rows], [each.value for each in operations])]

    def effective(self, message: int) -> NDArray[np.int64]:
        """Returns the OK rows of the sends that make a message effective."""
        rows = self.of_message(message, Operation.SEND)
        rows = rows[self.rows["outcome"][rows] == Outcome.OK]
        return rows[self.committed[rows]] if self.committed.size else rows

    def giving(self) -> NDArray[np.bool_]:
        """Returns which rows give an effective message of a log its offset: those OK sends that make it
        effective, or else its receives."""
        of_row = self.messages.of_row
        effective = np.append(self.tally.bits & EFFECTIVE != 0, False)[of_row]
        effective &= self.places.is_log[self.places.of_row] & (self.rows["offset"] != NONE)
        sends = effective & self.of(Operation.SEND)
        if self.committed.size:
            sends &= self.committed
        placed = np.zeros(self.messages.total + 1, np.bool_)
        placed[of_row[sends]] = True
        found: NDArray[np.bool_] = sends | (effective & self.of(Operation.RECEIVE) & ~placed[of_row])
        return found

    def first(self, rows: NDArray[Any]) -> Event:
        """Returns the event that is first among some rows."""
        return self.rows.events([first_row(self.rows, rows)])[0]

    def anomaly(self, kind: str, message: int, group: int = NONE) -> Anomaly:
        """Returns the anomaly of a message."""
        row = int(np.argmax(self.messages.of_row == message))
        return Anomaly(
            kind,
            stream=int(self.rows["stream"][row]),
            partition=int(self.rows["partition"][row]),
            group=group,
            producer=int(self.rows["producer"][row]),
            number=int(self.rows["number"][row]),
        )

    def anomaly_at(self, kind: str, row: int, *, group: bool = False) -> Anomaly:
        """Returns the anomaly that shows at a row."""
        return Anomaly(
            kind,
            stream=int(self.rows["stream"][row]),
            partition=int(self.rows["partition"][row]),
            group=int(self.rows["group"][row]) if group else NONE,
            process=int(self.rows["process"][row]),
            index=int(self.rows["index"][row]),
        )

    def in_order(self, rows: NDArray[Any], *, group: bool = False) -> NDArray[np.int64]:
        """Returns the order of some rows by their anomalies: place, group, process, index."""
        keys = [self.rows["index"][rows], self.rows["process"][rows]]
        if group:
            keys.append(self.rows["group"][rows])
        found: NDArray[np.int64] = np.lexsort((*keys, self.places.of_row[rows]))
        return found


def first_row(rows: Rows, which: NDArray[Any]) -> int:
    """Returns the row that is first by time, process and index."""
    keys = (rows["index"][which], rows["process"][which], rows["time_ns"][which])
    return int(which[np.lexsort(keys)[0]])


def build_table(rows: Rows, context: Context, digests: bool) -> Table:
    """Numbers partitions and messages, and collects what is known of the messages."""
    rows = with_strays(rows, context)
    places = number_places(rows, context)
    messages = number_messages(rows.columns, places.of_row, places.partition != NONE)
    is_committed = committed(rows, context)
    tally = Tally(
        np.zeros(messages.total, np.int16),
        np.zeros(messages.total, np.int64),
        np.full(messages.total, -1, np.int64),
        np.zeros(messages.total if digests else 0, np.int64),
    )
    told = Told(
        rows["operation"],
        rows["outcome"],
        rows["process"],
        rows["index"],
        rows["offset"],
        messages.of_row,
        is_committed,
        rows["digest"] if digests else np.empty(0, np.int64),
    )
    collect(told, tally)
    return Table(rows, context, places, messages, tally, is_committed)


def tell(table: Table, shown: Iterable[tuple[Anomaly, Iterable[Event]]], **numbers: Any) -> Evidence:
    """Returns evidence with these numbers and the witnesses of the first anomalies."""
    manifest = table.context.manifest
    witnesses = tuple(make_witness(anomaly, events, manifest) for anomaly, events in shown)
    return Evidence(witnesses=witnesses, **numbers)


def firsts(found: NDArray[Any]) -> list[int]:
    """Returns the first of some sorted anomalies: as many as a judgement shows."""
    return [int(each) for each in found[:WITNESSES]]
