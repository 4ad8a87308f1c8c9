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
    processed = _by_place(table, done[table.messages.of_row[done] >= 0])
    found: dict[int, list[NDArray[np.int64]]] = {}
    codes, (places, groups) = encode_all(table.places.of_row[commits], group[commits])
    highest = np.full(len(places), NONE, np.int64)
    np.maximum.at(highest, codes, rows["offset"][commits])
    assigns = _assigns(table)
    for place, each, end in zip(places.tolist(), groups.tolist(), highest.tolist(), strict=True):
        own, given = received.inside(place), processed.inside(place)
        passed = np.concatenate((giving.inside(place), own[group[own] == each]))
        offset = rows["offset"][passed]
        passed = passed[(offset >= _first_position(table, assigns, place, each)) & (offset < end)]
        left = _without(table.messages.of_row[passed], table.messages.of_row[given[group[given] == each]])
        found.setdefault(each, []).append(left)
    of_group = {each: _tell(table, each, np.concatenate(left)) for each, left in found.items()}
    return Part(facts=frozenset(facts), by_group=of_group)


def _without(messages: NDArray[np.int32], others: NDArray[np.int32]) -> NDArray[np.int64]:
    """Returns the messages that are not among the others, each once and in order; all are of one place."""
    if not messages.size:
        return np.empty(0, np.int64)
    low, high = int(messages.min()), int(messages.max())
    left = np.zeros(high - low + 1, np.bool_)
    left[messages - low] = True
    left[others[(others >= low) & (others <= high)] - low] = False
    return np.flatnonzero(left) + low


def _by_place(table: Table, rows: NDArray[np.int64]) -> _ByPlace:
    place = table.places.of_row[rows]
    order = np.argsort(place, kind="stable")
    return _ByPlace(rows[order], place[order])


def _assigns(table: Table) -> NDArray[np.int64]:
    return np.flatnonzero(table.of(Operation.ASSIGN) & (table.rows["offset"] != NONE))


def _first_position(table: Table, assigns: NDArray[np.int64], place: int, group: int) -> int:
    starts = assigns[(table.places.of_row[assigns] == place) & (table.rows["group"][assigns] == group)]
    return int(table.rows["offset"][starts].min()) if starts.size else 0


def _tell(table: Table, group: int, messages: NDArray[np.int64]) -> Evidence:
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
    lowest = offsets[offsets >= _first_position(table, _assigns(table), place, group)].min()
    commits = np.flatnonzero(table.of(Operation.COMMIT) & (table.places.of_row == place))
    commits = commits[(rows["group"][commits] == group) & (offset[commits] > lowest)]
    return [table.first(effective if effective.size else received), table.first(commits)]
