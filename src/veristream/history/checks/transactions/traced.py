"""The messages of transactions in the logs of a bucket: who sent them, and who received them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veristream.history.checks.context import Context
from veristream.history.checks.rows import Rows
from veristream.history.checks.transactions.keys import Bools, Longs, Places, pack, starts_of
from veristream.history.checks.transactions.ledger import Ledger
from veristream.history.events import NONE, Event, Operation, Outcome
from veristream.history.witnesses import order_of

Columns = dict[str, NDArray[Any]]

_MESSAGE: Final = ("stream", "partition", "producer", "number")
_OF_SEND: Final = ("process", "index", "call", "time_ns", "outcome", "offset", "transaction")
_OF_RECEIPT: Final = ("process", "index", "time_ns", "offset")


@dataclass(frozen=True, slots=True)
class Traced:
    """Messages that somebody sent in a transaction, ordered by stream, partition, producer and number.

    `message` has their names, and `place` the number of the partition of each among `places` (stream,
    partition). `sends` and `receipts` are their events, ordered by `message`, then those of sends by
    process, call and index; `row` is where an event is: in the bucket, or from its end on among the strays.
    `transaction` of a send is that of the ledger, -1 if the ledger has none; `within` says whether it is
    in any.
    """

    message: Columns
    place: Longs
    places: Columns
    sends: Columns
    receipts: Columns
    rows: Rows
    strays: Rows

    @property
    def count(self) -> int:
        """How many messages there are."""
        return self.place.size

    def events(self, rows: Sequence[int] | Longs) -> tuple[Event, ...]:
        """Reads the events of a few rows, ordered as those of witnesses."""
        chosen = np.asarray(rows, np.int64)
        inside = chosen < len(self.rows)
        found = self.rows.events(chosen[inside])
        found += self.strays.events(chosen[~inside] - len(self.rows))
        return tuple(sorted(found, key=order_of))

    def first(self, columns: Columns, which: NDArray[Any]) -> Event:
        """Returns the first of some sends or receipts, as witnesses mean it."""
        rows = np.flatnonzero(which) if which.dtype == np.bool_ else which
        keys = (columns["index"][rows], columns["process"][rows], columns["time_ns"][rows])
        return self.events(columns["row"][rows[np.lexsort(keys)[:1]]])[0]


def has_transactions(rows: Rows, context: Context) -> bool:
    """Says whether a bucket can have messages of transactions."""
    return any(
        bool(((each["transaction"] != NONE) & (each["operation"] == Operation.SEND)).any())
        for each in (rows, context.strays)
    )


def trace(rows: Rows, context: Context, ledger: Ledger) -> Traced:
    """Finds the messages of transactions in a bucket."""
    logs = np.array([each.offsets for each in context.manifest.streams] + [False])
    is_log = logs[rows["stream"]] & (rows["partition"] != NONE)  # stream -1 is the last one
    sends = np.flatnonzero(is_log & (rows["operation"] == Operation.SEND))
    receipts = np.flatnonzero(
        is_log & (rows["operation"] == Operation.RECEIVE) & (rows["producer"] != NONE)
    )
    stray, partition = _land(rows, receipts, context.strays, logs)
    names = {
        name: np.concatenate([rows[name][sends], context.strays[name][stray], rows[name][receipts]])
        for name in _MESSAGE
    }
    names["partition"][sends.size : sends.size + stray.size] = partition
    sent = sends.size + stray.size
    key = pack([names[name] for name in _MESSAGE])
    transaction = np.concatenate([rows["transaction"][sends], context.strays["transaction"][stray]])
    known, first = np.unique(key[:sent][transaction != NONE], return_index=True)
    of = Places(known).find(key)
    first = np.flatnonzero(transaction != NONE)[first]
    message = {name: column[first] for name, column in names.items()}
    place = pack((message["stream"], message["partition"]))
    begins = starts_of(place)
    send = {name: np.concatenate([rows[name][sends], context.strays[name][stray]]) for name in _OF_SEND}
    send["row"] = np.concatenate([sends, stray + len(rows)])
    send["message"] = of[:sent]
    receipt = {name: rows[name][receipts] for name in _OF_RECEIPT}
    receipt["row"], receipt["message"] = receipts, of[sent:]
    return Traced(
        message,
        np.repeat(np.arange(begins.size), np.diff(np.append(begins, place.size))),
        {name: message[name][begins] for name in ("stream", "partition")},
        _ordered_sends(send, ledger),
        _ordered(receipt, receipt["message"] >= 0, ("message",)),
        rows,
        context.strays,
    )


def _land(rows: Rows, receipts: Longs, strays: Rows, logs: Bools) -> tuple[Longs, NDArray[np.int32]]:
    """Returns the sends of no known partition, each with every partition that received its message."""
    sent = np.flatnonzero(logs[strays["stream"]])
    if not sent.size or not receipts.size:
        return np.empty(0, np.int64), np.empty(0, np.int32)
    name = ("stream", "producer", "number")
    key = pack([np.concatenate([strays[each][sent], rows[each][receipts]]) for each in name])
    known = np.unique(key[: sent.size])
    of = Places(known).find(key)
    found = of[sent.size :] >= 0
    message, partition = of[sent.size :][found], rows["partition"][receipts][found]
    order = np.lexsort((partition, message))
    message, partition = message[order], partition[order]
    begins = starts_of(message, partition)
    message, partition = message[begins], partition[begins]
    first = np.searchsorted(message, of[: sent.size])
    count = np.searchsorted(message, of[: sent.size], side="right") - first
    stray = np.repeat(np.arange(sent.size), count)
    place = np.arange(stray.size) - (np.cumsum(count) - count)[stray] + first[stray]
    return sent[stray], partition[place]


def _ordered_sends(send: Columns, ledger: Ledger) -> Columns:
    found = _ordered(send, send["message"] >= 0, ("message", "process", "call", "index"))
    found["within"] = found["transaction"] != NONE
    found["transaction"] = ledger.find(found["process"], found["transaction"])
    found["ok"] = found["outcome"] == Outcome.OK
    return found


def _ordered(columns: Columns, which: Bools, by: tuple[str, ...]) -> Columns:
    chosen = {name: column[which] for name, column in columns.items()}
    order = np.lexsort([chosen[name] for name in reversed(by)])
    return {name: column[order] for name, column in chosen.items()}
