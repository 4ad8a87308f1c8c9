"""`acknowledged is never delivered again`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from veristream.history.checks.table.calls import Clocks, begins, clocks
from veristream.history.checks.table.codes import encode_all
from veristream.history.checks.table.table import Table, firsts, tell
from veristream.history.events import Event, Operation
from veristream.history.reasons import Evidence

_KIND = "zombie delivery"


def find_zombie_deliveries(table: Table) -> Evidence:
    """Finds receipts of messages that their subscription had acknowledged."""
    rows = table.rows
    acknowledged = np.flatnonzero(table.of(Operation.ACKNOWLEDGE) & (table.messages.of_row >= 0))
    acknowledged = table.in_queue(acknowledged)
    if not acknowledged.size:
        return Evidence()
    receipts = table.queue_receipts()
    both = np.concatenate((acknowledged, receipts))
    codes, _ = encode_all(table.messages.of_row[both], rows["group"][both])
    one, other = codes[: len(acknowledged)], codes[len(acknowledged) :]
    # Receipts of what was never acknowledged can be left out.
    of_acknowledged = np.zeros(int(codes.max()) + 1, np.bool_)
    of_acknowledged[one] = True
    asked = int(np.count_nonzero(of_acknowledged))
    receipts, other = receipts[of_acknowledged[other]], other[of_acknowledged[other]]
    clock = clocks(table.context)
    found = _after(table, (acknowledged, one), (receipts, other, receipts), clock)
    # A call began with its first receipt, which may have been before the acknowledgement.
    late = np.flatnonzero(found)
    began = begins(rows, Operation.RECEIVE, receipts[late])
    found[late] = _after(table, (acknowledged, one), (receipts[late], other[late], began), clock)
    uncompared = _uncompared(
        rows["process"][acknowledged], one, rows["process"][receipts[~found]], other[~found], clock
    )
    late = np.flatnonzero(found)
    late = late[table.in_order(receipts[late], group=True)]
    shown = []
    for each in firsts(late):
        row = int(receipts[each])
        shown_of = acknowledged[one == other[each]]
        events = _shown(table, shown_of, row, clock)
        shown.append((table.anomaly_at(_KIND, row, group=True), events))
    return tell(table, shown, asked=asked, uncompared=uncompared, counts={_KIND: len(late)})


def _after(
    table: Table,
    acknowledged: tuple[NDArray[np.int64], NDArray[np.int32]],
    received: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]],
    clock: Clocks,
) -> NDArray[np.bool_]:
    """Returns which receipts, with their codes and the rows with which their calls began, were after an
    acknowledgement of the same code."""
    rows = table.rows
    done, code = acknowledged
    receipts, codes, began = received
    process, asking = rows["process"][done], rows["process"][receipts]
    own = _earliest(code, process, rows["index"][done], codes, asking) < rows["index"][began]
    timed = _earliest(code, clock.of[process], rows["time_ns"][done], codes, clock.of[asking])
    found: NDArray[np.bool_] = own | (clock.shared[asking] & (timed < rows["time_ns"][began]))
    return found


def _earliest(
    code: NDArray[np.int32],
    among: NDArray[np.int64],
    at: NDArray[np.int64],
    codes: NDArray[np.int32],
    asking: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Returns for each asking the lowest `at` of its code and number; the highest integer without one."""
    pairs, _ = encode_all(np.concatenate((code, codes)), np.concatenate((among, asking)))
    lowest = np.full(int(pairs.max(initial=0)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(lowest, pairs[: len(code)], at)
    return lowest[pairs[len(code) :]]


def _uncompared(
    process: NDArray[np.int32],
    code: NDArray[np.int32],
    asking: NDArray[np.int32],
    codes: NDArray[np.int32],
    clock: Clocks,
) -> bool:
    """Says whether processes that cannot be compared acknowledged and received one message."""
    of, other = clock.of[process], clock.of[asking]
    size = int(max(code.max(initial=0), codes.max(initial=0))) + 1
    lowest, highest = np.full(size, np.iinfo(np.int64).max), np.full(size, np.iinfo(np.int64).min)
    np.minimum.at(lowest, code, of)
    np.maximum.at(highest, code, of)
    return bool(((lowest[codes] != other) | (highest[codes] != other)).any())


def _shown(table: Table, acknowledged: NDArray[np.int64], row: int, clock: Clocks) -> list[Event]:
    rows = table.rows
    (began,) = begins(rows, Operation.RECEIVE, np.array([row]))
    process = int(rows["process"][row])
    own = rows["process"][acknowledged] == process
    timed = clock.shared[process] & (clock.of[rows["process"][acknowledged]] == clock.of[process])
    timed &= rows["time_ns"][acknowledged] < rows["time_ns"][began]
    before = np.where(own, rows["index"][acknowledged] < rows["index"][began], timed)
    return [table.first(acknowledged[before]), *rows.events([row])]
