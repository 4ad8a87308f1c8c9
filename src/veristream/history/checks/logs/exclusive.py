"""`one member holds a partition`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from veristream.history.checks.parts import Fact, Part
from veristream.history.checks.table.calls import Clocks, clocks
from veristream.history.checks.table.codes import encode_all
from veristream.history.checks.table.table import Table, firsts, tell
from veristream.history.events import Operation

_KIND = "overlapping assignment"
_NEVER = np.iinfo(np.int64).max


def find_overlaps(table: Table) -> Part:
    """Finds assignments of partitions that another member holds; `settle` counts the groups."""
    rows = table.rows
    assigns = table.in_log(np.flatnonzero(table.of(Operation.ASSIGN)))
    if not assigns.size:
        return Part()
    facts: set[Fact] = set()
    _, (groups, processes) = encode_all(rows["group"][assigns], rows["process"][assigns])
    facts.update(("assigned", *each) for each in zip(groups.tolist(), processes.tolist(), strict=True))
    keys = (rows[name][assigns] for name in ("index", "process", "time_ns"))
    assigns = assigns[np.lexsort(tuple(keys))]
    holding, _ = encode_all(table.places.of_row[assigns], rows["group"][assigns])
    end = _ends(table, assigns, holding)
    clock = clocks(table.context)
    uncompared = False
    found: list[NDArray[np.int64]] = []
    by_place = np.argsort(holding, kind="stable")
    for one in np.split(by_place, np.flatnonzero(np.diff(holding[by_place])) + 1):
        of = rows["process"][assigns[one]]
        uncompared |= len(np.unique(clock.of[of])) > 1
        found.append(one[_overlapping(of, rows["time_ns"][assigns[one]], end[one], clock)])
    later = np.concatenate(found)
    if not table.context.manifest.complete:
        later = later[:0]
    later = later[table.in_order(assigns[later], group=True)]
    shown = []
    for each in firsts(later):
        row = int(assigns[each])
        earlier = np.flatnonzero(holding[:each] == holding[each])
        process = rows["process"][assigns[earlier]]
        others = (process != rows["process"][row]) & (clock.of[process] == clock.of[rows["process"][row]])
        earlier = earlier[others & (end[earlier] > rows["time_ns"][row])]
        events = rows.events([int(assigns[earlier[0]]), row])
        shown.append((table.anomaly_at(_KIND, row, group=True), events))
    evidence = tell(table, shown, uncompared=uncompared, counts={_KIND: len(later)})
    return Part(evidence, frozenset(facts))


def _overlapping(
    process: NDArray[np.int32], time_ns: NDArray[np.int64], end: NDArray[np.int64], clock: Clocks
) -> list[int]:
    """Returns which assignments of a partition, the first one first, another process holds already."""
    latest: dict[int, int] = {}  # of each process, until when it holds the partition at most
    found = []
    both = zip(process.tolist(), time_ns.tolist(), end.tolist(), strict=True)
    for each, (one, begin, until) in enumerate(both):
        if any(
            held > begin and other != one and clock.of[other] == clock.of[one]
            for other, held in latest.items()
        ):
            found.append(each)
        latest[one] = max(latest.get(one, until), until)
    return found


def _ends(table: Table, assigns: NDArray[np.int64], holding: NDArray[np.int32]) -> NDArray[np.int64]:
    """Returns until when each assignment holds: its `REVOKE` or the `CLOSE` of the process that is next."""
    rows, control = table.rows, table.context.control
    until: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
    for row in np.flatnonzero(table.of(Operation.REVOKE)).tolist():
        key = (int(table.places.of_row[row]), int(rows["group"][row]), int(rows["process"][row]))
        until.setdefault(key, []).append((int(rows["index"][row]), int(rows["time_ns"][row])))
    closed: dict[int, list[tuple[int, int]]] = {}
    for row in np.flatnonzero(control["operation"] == Operation.CLOSE).tolist():
        one = (int(control["index"][row]), int(control["time_ns"][row]))
        closed.setdefault(int(control["process"][row]), []).append(one)
    ends = []
    for row in assigns.tolist():
        process, index = int(rows["process"][row]), int(rows["index"][row])
        key = (int(table.places.of_row[row]), int(rows["group"][row]), process)
        later = [each for each in (*until.get(key, ()), *closed.get(process, ())) if each[0] > index]
        ends.append(min(later)[1] if later else _NEVER)
    return np.array(ends, np.int64)
