"""`committed means processed`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.history.checks.parts import Part
from veristream.history.checks.table.codes import encode_all
from veristream.history.checks.table.table import Table, firsts, tell
from veristream.history.events import NONE, Event, Operation, Outcome
from veristream.history.reasons import Evidence

_KIND = "unprocessed"


class _ByPlace(NamedTuple):
    """Some rows, ordered by their place."""

    row: NDArray[np.int64]
    place: NDArray[np.int32]

    def inside(self, place: int) -> NDArray[np.int64]:
        """Returns those of a place."""
        begin, end = np.searchsorted(self.place, (place, place + 1))
        return self.row[begin:end]


def find_unprocessed(table: Table) -> Part:
    """Finds messages that no member of a group acknowledged, although a commit of it is past them."""
    rows = table.rows
    operation, group = rows["operation"], rows["group"]
    commits = table.in_log(np.flatnonzero(table.of(Operation.COMMIT)))
    acknowledged = table.in_log(np.flatnonzero(operation == Operation.ACKNOWLEDGE))
    unknown = table.in_log(np.flatnonzero(table.of(Operation.RECEIVE) & (rows["producer"] < 0)))
    facts = {
        (what, each, 0)
        for what, which in (("committed", commits), ("acknowledged", acknowledged), ("unknown", unknown))
        for each in np.unique(group[which]).tolist()
    }
    if not (commits.size and table.context.manifest.complete):
        return Part(facts=frozenset(facts))
    giving = _by_place(table, np.flatnonzero(table.giving()))
    receipts = table.in_log(np.flatnonzero(table.of(Operation.RECEIVE) & (table.messages.of_row >= 0)))
    received = _by_place(table, receipts)
    done = acknowledged[rows["outcome"][acknowledged] != Outcome.FAIL]
    done = done[table.messages.of_row[done] >= 0]
    found: dict[int, list[NDArray[np.int32]]] = {}
    codes, (places, groups) = encode_all(table.places.of_row[commits], group[commits])
    highest = np.full(len(places), NONE, np.int64)
    np.maximum.at(highest, codes, rows["offset"][commits])
    for place, each, end in zip(places.tolist(), groups.tolist(), highest.tolist(), strict=True):
        own = received.inside(place)
        passed = np.concatenate((giving.inside(place), own[group[own] == each]))
        offset = rows["offset"][passed]
        passed = passed[(offset >= _first_position(table, place, each)) & (offset < end)]
        left = np.setdiff1d(table.messages.of_row[passed], table.messages.of_row[done[group[done] == each]])
        found.setdefault(each, []).append(left)
    of_group = {each: _tell(table, each, np.concatenate(left)) for each, left in found.items()}
    return Part(facts=frozenset(facts), by_group=of_group)


def _by_place(table: Table, rows: NDArray[np.int64]) -> _ByPlace:
    place = table.places.of_row[rows]
    order = np.argsort(place, kind="stable")
    return _ByPlace(rows[order], place[order])


def _first_position(table: Table, place: int, group: int) -> int:
    starts = table.of(Operation.ASSIGN) & (table.rows["offset"] != NONE)
    starts &= (table.places.of_row == place) & (table.rows["group"] == group)
    return int(table.rows["offset"][starts].min()) if starts.any() else 0


def _tell(table: Table, group: int, messages: NDArray[np.int32]) -> Evidence:
    """Tells of messages in the order of their places, and so of their anomalies."""
    shown = [
        (table.anomaly(_KIND, message, group), _shown(table, message, group))
        for message in firsts(messages)
    ]
    return tell(table, shown, counts={_KIND: len(messages)})


def _shown(table: Table, message: int, group: int) -> list[Event]:
    rows, offset = table.rows, table.rows["offset"]
    effective = table.effective(message)
    receipts = table.of_message(message, Operation.RECEIVE)
    received = receipts[rows["group"][receipts] == group]
    giving = effective[offset[effective] != NONE]
    if effective.size and not giving.size:
        giving = receipts
    place = int(table.places.of_row[receipts[0] if not effective.size else effective[0]])
    offsets = offset[np.concatenate((giving, received))]
    lowest = offsets[offsets >= _first_position(table, place, group)].min()
    commits = np.flatnonzero(table.of(Operation.COMMIT) & (table.places.of_row == place))
    commits = commits[(rows["group"][commits] == group) & (offset[commits] > lowest)]
    return [table.first(effective if effective.size else received), table.first(commits)]
