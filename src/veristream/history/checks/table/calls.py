"""When calls began and ended, and which processes have clocks that can be compared."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.history.checks.context import Context
from veristream.history.checks.rows import Rows
from veristream.history.checks.table.codes import encode_all
from veristream.history.events import Operation, Outcome


class Clocks(NamedTuple):
    """Of each process a number; two with the same one can be compared. `shared` says that the time of
    others may be compared with its own."""

    of: NDArray[np.int64]
    shared: NDArray[np.bool_]


def clocks(context: Context) -> Clocks:
    """Returns the clocks of all processes."""
    hosts: dict[str, int] = {}
    of, shared = [], []
    for process, each in enumerate(context.manifest.processes):
        known = each.host != "" and not context.jumped[process]
        shared.append(known)
        of.append(hosts.setdefault(each.host, len(hosts)) if known else -1 - process)
    return Clocks(np.array(of, np.int64), np.array(shared, np.bool_))


def begins(rows: Rows, operation: Operation, which: NDArray[Any]) -> NDArray[np.int64]:
    """Returns the row with which the call of each of some rows of an operation began."""
    if not which.size:
        return which
    of = np.flatnonzero(rows["operation"] == operation)
    invoked = rows["outcome"][of] != Outcome.INVOKE
    call, process = rows["call"][of], rows["process"][of]
    of = of[np.lexsort((rows["index"][of], invoked, call, process))]
    codes, _ = encode_all(rows["process"][of], rows["call"][of])
    first = np.flatnonzero(np.diff(codes, prepend=-1))  # codes ascend, as the rows do
    code_of = np.zeros(len(rows), np.int32)
    code_of[of] = codes
    found: NDArray[np.int64] = of[first[code_of[which]]]
    return found


class Sends(NamedTuple):
    """Calls of `SEND` by message: the event with which each ended, if it did."""

    message: NDArray[np.int64]
    process: NDArray[np.int32]
    ended: NDArray[np.bool_]
    at: NDArray[np.int64]  # the index of that event
    time_ns: NDArray[np.int64]

    def before(self, rows: Rows, begin: int, clock: Clocks) -> NDArray[np.bool_]:
        """Returns which calls ended before the call that begins with a row."""
        process = int(rows["process"][begin])
        own = self.process == process
        comparable = clock.shared[process] & (clock.of[self.process] == clock.of[process])
        earlier = np.where(
            own, self.at < rows["index"][begin], comparable & (self.time_ns < rows["time_ns"][begin])
        )
        found: NDArray[np.bool_] = self.ended & earlier
        return found


def sends_of(rows: Rows, message: NDArray[np.int32], which: NDArray[Any]) -> Sends:
    """Returns the calls of some rows of `SEND`; `message` is the message of each row."""
    ended = rows["outcome"][which] != Outcome.INVOKE
    keys = (rows["index"][which], ended, rows["call"][which], rows["process"][which], message[which])
    which = which[np.lexsort(keys)]
    codes, _ = encode_all(message[which], rows["process"][which], rows["call"][which])
    last = which[np.flatnonzero(np.diff(codes, append=-1))]  # that with the highest index that ended it
    return Sends(
        message[last].astype(np.int64),
        rows["process"][last],
        rows["outcome"][last] != Outcome.INVOKE,
        rows["index"][last],
        rows["time_ns"][last],
    )
