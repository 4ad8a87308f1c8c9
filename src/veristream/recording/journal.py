"""The journal of one client: what it called, and what it learnt of each call.

A client's thread only takes the time and appends to a list. Another thread, that of the recording, makes
columns of what was appended. `recording.rapid` does the same for what clients do most often.

The number of a call is twice the index of its first event; odd ones are those that `begin` gives out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Protocol, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from veristream.history.events import NONE, Operation, Outcome

Column = NDArray[Any] | Sequence[str]
Columns = Mapping[str, Column]


class Fields(TypedDict, total=False):
    """What an event has besides its process, index, call and times; absent ones have no value."""

    stream: int
    partition: int
    offset: int
    producer: int
    number: int
    digest: int
    group: int
    transaction: int
    epoch: int
    attempt: int
    node: int


FIELDS: Final[Mapping[str, Any]] = {
    "stream": np.int32,
    "partition": np.int32,
    "offset": np.int64,
    "producer": np.int32,
    "number": np.int64,
    "digest": np.int64,
    "group": np.int32,
    "transaction": np.int64,
    "epoch": np.int32,
    "attempt": np.int32,
    "node": np.int32,
}
"""The columns of `Fields` and their types."""


@dataclass(slots=True, eq=False)
class Call:
    """A call that began. Its `INVOKE` is written once it ended, since its partition may be learnt then."""

    number: int
    operation: Operation
    index: int
    time_ns: int
    fields: Fields


_Row = tuple[int, int, int, int, int, Fields, str]
"""Index, call, operation, outcome, time, fields, error."""


class Source(Protocol):
    """Events of a journal that are kept elsewhere; both methods are called by the recording's thread."""

    def drain(self) -> list[Columns]:
        """Takes the events of calls that have ended."""
        ...

    def retire(self) -> list[Columns]:
        """Takes all events that are left."""
        ...


class Journal:
    """The events of one process; any thread may append.

    After `retire`, what still arrives is ignored: a callback of a client may come late. `stamp` returns the
    index of the next event and its time on the system's monotonic clock, which is `start_ns` at the start.
    """

    def __init__(self, process: int, start_ns: int) -> None:
        self.process = process
        self.start_ns = start_ns
        # One call without a step of Python inside, so that no thread gets a later index and an earlier time
        self.stamp: Callable[[], tuple[int, int]] = zip(count(), iter(time.monotonic_ns, None)).__next__
        self._lock = threading.Lock()
        self._rows: list[_Row] = []
        self._open: dict[int, Call] = {}
        self._begun = 0
        self._sources: list[Source] = []
        self._retired = False
        self._acknowledged: dict[tuple[int, int], int] = {}

    def attach(self, source: Source) -> None:
        """Adds events that share this journal's `stamp`."""
        with self._lock:
            self._sources.append(source)

    def invoke(self, operation: Operation, **fields: Unpack[Fields]) -> Call:
        """Begins a call; all its events have the same fields, and those that its end adds."""
        with self._lock:
            index, now = self.stamp()
            call = Call(2 * index, operation, index, now, fields)
            self._open[call.number] = call
        return call

    def ok(self, call: Call, **fields: Unpack[Fields]) -> None:
        """Ends a call that had its effect."""
        self.end(call, Outcome.OK, "", **fields)

    def fail(self, call: Call, error: str = "", **fields: Unpack[Fields]) -> None:
        """Ends a call that certainly had no effect."""
        self.end(call, Outcome.FAIL, error, **fields)

    def indefinite(self, call: Call, error: str = "", **fields: Unpack[Fields]) -> None:
        """Ends a call that may or may not have its effect, now or later."""
        self.end(call, Outcome.INDEFINITE, error, **fields)

    def end(self, call: Call, outcome: Outcome, error: str, **fields: Unpack[Fields]) -> None:
        """Ends a call with an outcome that is not `INVOKE`."""
        with self._lock:
            if self._retired:
                return
            if self._open.pop(call.number, None) is not call:
                raise ValueError(f"call {call.number} of process {self.process} has ended before")
            for name in ("stream", "partition"):  # all events of a call have the same ones
                if name in fields:
                    call.fields[name] = fields[name]
            index, now = self.stamp()
            self._rows.append(_invoke(call))
            whole: Fields = {**call.fields, **fields}
            self._rows.append((index, call.number, call.operation, outcome, now, whole, error))

    def begin(self) -> int:
        """Returns the number of a new call, for several `note`s of one call."""
        with self._lock:
            self._begun += 1
            return 2 * self._begun - 1

    def note(self, operation: Operation, call: int | None = None, **fields: Unpack[Fields]) -> None:
        """Adds an event that has only an end, in a call of its own by default."""
        with self._lock:
            if self._retired:
                return
            index, now = self.stamp()
            number = 2 * index if call is None else call
            self._rows.append((index, number, operation, Outcome.OK, now, fields, ""))

    def acknowledge(self, stream: int, partition: int, offset: int) -> None:
        """Notes that a send was acknowledged at an offset; called by the recording's thread."""
        place = stream, partition
        self._acknowledged[place] = max(offset, self._acknowledged.get(place, NONE))

    def acknowledged(self, stream: int, partition: int) -> int:
        """Returns the highest offset that was acknowledged, of what was drained; else NONE."""
        return self._acknowledged.get((stream, partition), NONE)

    def drain(self) -> list[Columns]:
        """Takes what was appended since, as columns without `wall_us`; calls still under way remain."""
        with self._lock:
            rows, self._rows = self._rows, []
            sources = list(self._sources)
        found = [_columns(self.process, self.start_ns, rows)] if rows else []
        for each in sources:
            found += each.drain()
        return found

    def retire(self) -> list[Columns]:
        """Takes all that is left, calls under way included: nobody will ever know how they ended."""
        with self._lock:
            self._retired = True
            self._rows += [_invoke(each) for each in self._open.values()]
            self._open.clear()
            sources, self._sources = self._sources, []
        found = self.drain()
        for each in sources:
            found += each.retire()
        return found


def _invoke(call: Call) -> _Row:
    return (call.index, call.number, call.operation, Outcome.INVOKE, call.time_ns, call.fields, "")


def _columns(process: int, start_ns: int, rows: Sequence[_Row]) -> Columns:
    index, call, operation, outcome, time_ns, fields, error = zip(*rows, strict=True)
    columns: dict[str, Column] = {
        "process": np.full(len(rows), process, np.int32),
        "index": np.array(index, np.int64),
        "call": np.array(call, np.int64),
        "operation": np.array(operation, np.int8),
        "outcome": np.array(outcome, np.int8),
        "time_ns": np.array(time_ns, np.int64) - start_ns,
    }
    for name, kind in FIELDS.items():
        absent = 0 if name == "digest" else NONE
        columns[name] = np.array([each.get(name, absent) for each in fields], kind)
    if any(error):
        columns["error"] = error
    return columns
