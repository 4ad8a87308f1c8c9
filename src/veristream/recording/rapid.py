"""Sends and receipts for clients that do hundreds of thousands of them in a second.

They are appended to lists as plain numbers, one after the other, without an object for each event. The
recording's thread makes columns of them, and joins each send with its end.

There are no locks: `list.extend` adds all numbers of an event in one step, and the recording's thread takes
whole events from the front.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veristream.history.events import NONE, Operation, Outcome
from veristream.recording.journal import Column, Columns, Journal

Numbers = NDArray[np.int64]
Extend = Callable[[Iterable[int]], None]

_INVOKED: Final = 4  # index, time, number, digest
_OK: Final = 5  # index of the invoke, index, time, partition, offset
_RECEIVED: Final = 8  # index, call, time, partition, offset, producer, number, digest


class Sends:
    """The sends of a process to one stream, under its own name as the producer."""

    def __init__(self, journal: Journal, stream: int) -> None:
        self._journal = journal
        self._stream = stream
        self._within = (NONE, NONE)
        self._sealing = threading.Lock()
        self._invoked: list[int] = []
        self._earlier: list[Numbers] = []
        self._ok: list[int] = []
        self._others: list[tuple[int, int, int, int, Outcome, str]] = []
        self._waiting = np.empty((0, _INVOKED + 2), np.int64)
        self.invoked: Extend = self._invoked.extend
        """Takes the index and the time of an `INVOKE`, the message's number and its digest."""
        self.ended: Extend = self._ok.extend
        """Takes the index of the `INVOKE`, that of an `OK` and its time, the partition and the offset; a
        negative one is not known."""
        journal.attach(self)

    def within(self, transaction: int, epoch: int = NONE) -> None:
        """Says of what transaction the sends from now on are."""
        with self._sealing:
            self._seal()
            self._within = (transaction, epoch)

    def invoke(self, number: int, digest: int) -> int:
        """Begins to send a message; returns what its end is named by."""
        index, now = self._journal.stamp()
        self.invoked((index, now, number, digest))
        return index

    def ok(self, invoke: int, partition: int, offset: int) -> None:
        """Ends a send that the broker acknowledged, with NONE for an offset that it did not tell."""
        self.ended((invoke, *self._journal.stamp(), partition, offset))

    def end(self, invoke: int, outcome: Outcome, error: str, partition: int) -> None:
        """Ends a send that was not acknowledged."""
        self._others.append((invoke, *self._journal.stamp(), partition, outcome, error))

    def drain(self) -> list[Columns]:
        """Takes the sends that have ended."""
        ok = _take(self._ok, _OK)  # before the invokes, so that those of all of these are there
        others = self._others[:]
        del self._others[: len(others)]
        with self._sealing:
            self._seal()
            invoked, self._earlier = self._earlier, []
        waiting = np.concatenate([self._waiting, *invoked])  # in the order of their indexes
        ended = np.zeros(len(waiting), np.bool_)
        found = []
        if len(ok):
            rows = ok
            np.maximum(rows[:, 4], NONE, out=rows[:, 4])
            at = np.searchsorted(waiting[:, 0], rows[:, 0])
            ended[at] = True
            places = (rows[:, 3], rows[:, 4])
            for partition in np.unique(rows[:, 3]).tolist():
                highest = int(rows[rows[:, 3] == partition, 4].max())
                self._journal.acknowledge(self._stream, partition, highest)
            found.append(self._begins(waiting[at], rows[:, 3]))
            found.append(self._ends(waiting[at], rows, places, Outcome.OK))
        if others:
            rows = np.array([each[:4] for each in others], np.int64)
            at = np.searchsorted(waiting[:, 0], rows[:, 0])
            ended[at] = True
            outcome = np.array([each[4] for each in others], np.int8)
            found.append(self._begins(waiting[at], rows[:, 3]))
            ends = self._ends(waiting[at], rows, (rows[:, 3], NONE), outcome)
            found.append({**ends, "error": [each[5] for each in others]})
        self._waiting = waiting[~ended]
        return found

    def retire(self) -> list[Columns]:
        """Takes all that is left; sends under way have only an `INVOKE`, without a partition."""
        found = self.drain()
        left, self._waiting = self._waiting, self._waiting[:0]
        return [*found, self._begins(left, NONE)] if len(left) else found

    def _seal(self) -> None:
        """Makes rows of what was invoked in one transaction."""
        rows = _take(self._invoked, _INVOKED)
        if len(rows):
            self._earlier.append(np.hstack([rows, np.full((len(rows), 2), self._within, np.int64)]))

    def _begins(self, sends: Numbers, partition: Numbers | int) -> Columns:
        return self._columns(sends, sends[:, 0], sends[:, 1], (partition, NONE), Outcome.INVOKE)

    def _ends(
        self,
        sends: Numbers,
        rows: Numbers,
        places: tuple[Numbers, Numbers | int],
        outcome: Outcome | NDArray[np.int8],
    ) -> Columns:
        return self._columns(sends, rows[:, 1], rows[:, 2], places, outcome)

    def _columns(
        self,
        sends: Numbers,
        index: Numbers,
        time_ns: Numbers,
        places: tuple[Numbers | int, Numbers | int],
        outcome: Outcome | NDArray[np.int8],
    ) -> Columns:
        process, partition, offset = self._journal.process, *places
        numbers = {
            "process": process, "stream": self._stream, "producer": process, "operation": Operation.SEND,
            "outcome": outcome, "index": index, "call": 2 * sends[:, 0], "partition": partition,
            "time_ns": time_ns - self._journal.start_ns, "offset": offset, "number": sends[:, 2],
            "digest": sends[:, 3], "transaction": sends[:, 4], "epoch": sends[:, 5],
        }  # fmt: skip
        return _typed(numbers, len(sends))


class Receives:
    """The messages that a process received from one stream, as a member of a group or of none."""

    def __init__(self, journal: Journal, stream: int, group: int = NONE) -> None:
        self._journal = journal
        self._stream = stream
        self._group = group
        self._rows: list[int] = []
        journal.attach(self)

    def add(self, place: tuple[int, int], message: tuple[int, int], digest: int, call: int = NONE) -> None:
        """Adds a message by its partition and offset, and by its producer and number."""
        index, now = self._journal.stamp()
        number = 2 * index if call < 0 else call
        self._rows.extend((index, number, now, *place, *message, digest))

    def drain(self) -> list[Columns]:
        """Takes what was received since."""
        rows = _take(self._rows, _RECEIVED)
        if not len(rows):
            return []
        numbers = {
            "process": self._journal.process, "stream": self._stream, "group": self._group,
            "operation": Operation.RECEIVE, "outcome": Outcome.OK, "index": rows[:, 0], "call": rows[:, 1],
            "time_ns": rows[:, 2] - self._journal.start_ns, "partition": rows[:, 3], "offset": rows[:, 4],
            "producer": rows[:, 5], "number": rows[:, 6], "digest": rows[:, 7],
        }  # fmt: skip
        return [_typed(numbers, len(rows))]

    def retire(self) -> list[Columns]:
        """Takes what is left."""
        return self.drain()


def _take(flat: list[int], width: int) -> Numbers:
    """Takes the events from a list that others extend meanwhile."""
    taken = flat[:]
    del flat[: len(taken)]
    return np.array(taken, np.int64).reshape(-1, width)


_TYPES: Final = {
    "process": np.int32, "operation": np.int8, "outcome": np.int8, "stream": np.int32,
    "partition": np.int32, "producer": np.int32, "group": np.int32, "epoch": np.int32,
}  # fmt: skip


def _typed(numbers: dict[str, Any], rows: int) -> dict[str, Column]:
    """Gives each column its type, and each constant as many rows as there are."""
    return {
        name: np.ascontiguousarray(np.broadcast_to(np.asarray(value, _TYPES.get(name, np.int64)), rows))
        for name, value in numbers.items()
    }
