"""The journal of one client: what it called, and what it learnt of each call.

A client's thread only takes the time and appends to a list. Another thread, that of the recording, makes
columns of what was appended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict, Unpack

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


class Journal:
    """The events of one process; any thread may append.

    After `retire`, what still arrives is ignored: a callback of a client may come late.
    """

    def __init__(self, process: int, clock: Callable[[], int]) -> None:
        self.process = process
        self._clock = clock
        self._lock = threading.Lock()
        self._rows: list[_Row] = []
        self._open: dict[int, Call] = {}
        self._index = 0
        self._calls = 0
        self._retired = False

    def invoke(self, operation: Operation, **fields: Unpack[Fields]) -> Call:
        """Begins a call; all its events have the same fields, and those that its end adds."""
        with self._lock:
            call = Call(self._calls, operation, self._index, self._clock(), fields)
            self._calls += 1
            self._index += 1
            self._open[call.number] = call
        return call

    def ok(self, call: Call, **fields: Unpack[Fields]) -> None:
        """Ends a call that had its effect."""
        self._end(call, Outcome.OK, "", fields)

    def fail(self, call: Call, error: str = "", **fields: Unpack[Fields]) -> None:
        """Ends a call that certainly had no effect."""
        self._end(call, Outcome.FAIL, error, fields)

    def indefinite(self, call: Call, error: str = "", **fields: Unpack[Fields]) -> None:
        """Ends a call that may or may not have its effect, now or later."""
        self._end(call, Outcome.INDEFINITE, error, fields)

    def begin(self) -> int:
        """Returns the number of a new call, for several `note`s of one call."""
        with self._lock:
            self._calls += 1
            return self._calls - 1

    def note(self, operation: Operation, call: int | None = None, **fields: Unpack[Fields]) -> None:
        """Adds an event that has only an end, in a call of its own by default."""
        with self._lock:
            if self._retired:
                return
            if call is None:
                call = self._calls
                self._calls += 1
            self._rows.append((self._index, call, operation, Outcome.OK, self._clock(), fields, ""))
            self._index += 1

    def drain(self) -> list[Columns]:
        """Takes what was appended since, as columns without `wall_us`; calls still under way remain."""
        with self._lock:
            rows, self._rows = self._rows, []
        return [_columns(self.process, rows)] if rows else []

    def retire(self) -> list[Columns]:
        """Takes all that is left, calls under way included: nobody will ever know how they ended."""
        with self._lock:
            self._retired = True
            for each in self._open.values():
                self._rows.append(_invoke(each))
            self._open.clear()
        return self.drain()

    def _end(self, call: Call, outcome: Outcome, error: str, fields: Fields) -> None:
        with self._lock:
            if self._retired:
                return
            if self._open.pop(call.number, None) is not call:
                raise ValueError(f"call {call.number} of process {self.process} has ended before")
            for name in ("stream", "partition"):  # all events of a call have the same ones
                if name in fields:
                    call.fields[name] = fields[name]
            now = self._clock()
            self._rows.append(_invoke(call))
            whole: Fields = {**call.fields, **fields}
            self._rows.append((self._index, call.number, call.operation, outcome, now, whole, error))
            self._index += 1


def _invoke(call: Call) -> _Row:
    return (call.index, call.number, call.operation, Outcome.INVOKE, call.time_ns, call.fields, "")


def _columns(process: int, rows: Sequence[_Row]) -> Columns:
    index, call, operation, outcome, time_ns, fields, error = zip(*rows, strict=True)
    columns: dict[str, Column] = {
        "process": np.full(len(rows), process, np.int32),
        "index": np.array(index, np.int64),
        "call": np.array(call, np.int64),
        "operation": np.array(operation, np.int8),
        "outcome": np.array(outcome, np.int8),
        "time_ns": np.array(time_ns, np.int64),
    }
    for name, kind in FIELDS.items():
        absent = 0 if name == "digest" else NONE
        columns[name] = np.array([each.get(name, absent) for each in fields], kind)
    if any(error):
        columns["error"] = error
    return columns
