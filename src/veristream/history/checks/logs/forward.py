"""`commits never move back`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.history.checks.table.calls import Clocks, begins, clocks
from veristream.history.checks.table.codes import encode, encode_all
from veristream.history.checks.table.table import Table, firsts, tell
from veristream.history.events import NONE, Event, Operation
from veristream.history.reasons import Evidence, merge

_KINDS = ((Operation.COMMIT, "backward commit"), (Operation.ASSIGN, "lost commit"))
_BITS = 32


class _Compared(NamedTuple):
    """OK commits, and then the assignments with an offset: of each the row, the row with which its call
    began, what is compared (partition and group), and the rank of its offset from 1 on."""

    row: NDArray[np.int64]
    begin: NDArray[np.int64]
    place: NDArray[np.int64]
    rank: NDArray[np.int64]
    commits: int


def find_moves_back(table: Table) -> Evidence:
    """Finds commits, and assignments, below an earlier commit of the group."""
    all_of = _compared(table)
    if not all_of.commits:
        return Evidence()
    clock = clocks(table.context)
    highest = np.maximum(*_highest_before(table, all_of, clock))
    back = all_of.rank < highest
    unsure = ~back & (_highest_elsewhere(table, all_of, clock) > all_of.rank)
    parts = [Evidence(asked=int(np.count_nonzero(highest)), uncompared=bool(unsure.any()))]
    for operation, kind in _KINDS:
        if kind == "backward commit" and not table.context.manifest.complete:
            continue
        found = np.flatnonzero(back & (table.rows["operation"][all_of.row] == operation))
        found = found[table.in_order(all_of.row[found], group=True)]
        shown = []
        for each in firsts(found):
            row = int(all_of.row[each])
            events = [_highest(table, all_of, clock, each, int(highest[each])), *table.rows.events([row])]
            shown.append((table.anomaly_at(kind, row, group=True), events))
        parts.append(tell(table, shown, counts={kind: len(found)}))
    return merge(parts)


def _compared(table: Table) -> _Compared:
    commits = table.in_log(np.flatnonzero(table.of(Operation.COMMIT)))
    assigns = table.in_log(np.flatnonzero(table.of(Operation.ASSIGN) & (table.rows["offset"] != NONE)))
    row = np.concatenate((commits, assigns))
    began = [
        begins(table.rows, operation, rows)
        for operation, rows in ((Operation.COMMIT, commits), (Operation.ASSIGN, assigns))
    ]
    place, _ = encode_all(table.places.of_row[row], table.rows["group"][row])
    rank, _ = encode(table.rows["offset"][row])
    return _Compared(
        row, np.concatenate(began), place.astype(np.int64), rank.astype(np.int64) + 1, len(commits)
    )


def _highest_before(
    table: Table, all_of: _Compared, clock: Clocks
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the highest rank of the commits before each: of its own process, and by time."""
    rows = table.rows
    process = rows["process"][all_of.row]
    own = _running(all_of, process, rows["index"][all_of.row], rows["index"][all_of.begin])
    timed = _running(all_of, clock.of[process], rows["time_ns"][all_of.row], rows["time_ns"][all_of.begin])
    return own, np.where(clock.shared[process], timed, 0)


def _running(
    all_of: _Compared, among: NDArray[np.int64], end: NDArray[np.int64], begin: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Returns for each the highest rank of the commits of its place, among those with its number, whose end
    is below its begin; 0 if there is none."""
    several, _ = encode_all(all_of.place, among)
    commits = slice(all_of.commits)
    group = np.concatenate((several[commits], several)).astype(np.int64)
    rank = np.concatenate((all_of.rank[commits], np.zeros_like(all_of.rank)))
    at = np.concatenate((end[commits], begin))
    order = np.lexsort((rank != 0, at, group))  # of one time, commits come after what asks for them
    highest = np.empty_like(rank)
    highest[order] = np.maximum.accumulate((group[order] << _BITS) + rank[order]) & ((1 << _BITS) - 1)
    return highest[all_of.commits :]


def _highest_elsewhere(table: Table, all_of: _Compared, clock: Clocks) -> NDArray[np.int64]:
    """Returns the highest rank of the commits of each place by processes with clocks of another kind."""
    own = clock.of[table.rows["process"][all_of.row]]
    commits = slice(all_of.commits)
    highest = np.zeros(len(all_of.row), np.int64)
    for each in np.unique(own).tolist():
        most = np.zeros(int(all_of.place.max()) + 1, np.int64)
        of_others = own[commits] != each
        np.maximum.at(most, all_of.place[commits][of_others], all_of.rank[commits][of_others])
        mine = own == each
        highest[mine] = most[all_of.place[mine]]
    return highest


def _highest(table: Table, all_of: _Compared, clock: Clocks, asking: int, rank: int) -> Event:
    """Returns the first of the commits before one that have the highest rank."""
    rows, begin = table.rows, all_of.begin[asking]
    same = (all_of.place == all_of.place[asking]) & (all_of.rank == rank)
    same[all_of.commits :] = False
    others = all_of.row[same]
    process = int(rows["process"][begin])
    own = rows["process"][others] == process
    timed = clock.shared[process] & (clock.of[rows["process"][others]] == clock.of[process])
    timed &= rows["time_ns"][others] < rows["time_ns"][begin]
    return table.first(others[np.where(own, rows["index"][others] < rows["index"][begin], timed)])
