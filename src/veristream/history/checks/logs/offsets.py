"""`one offset, one message`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.history.checks.table.codes import encode_all
from veristream.history.checks.table.table import Table, firsts, tell
from veristream.history.events import NONE, Event, Operation, Outcome
from veristream.history.reasons import Evidence
from veristream.history.verdicts import Anomaly
from veristream.native.loop import loop

_KIND = "inconsistent offset"
_SEND, _RECEIVE, _OK = Operation.SEND.value, Operation.RECEIVE.value, Outcome.OK.value
_SPAN_PER_ROW = 8  # offsets that a row may cost before they are sorted instead
_SPAN_SPARE = 4096


class Placed(NamedTuple):
    """The rows, those of them that give a message of a log its offset: see `_at`."""

    operation: NDArray[np.int8]
    outcome: NDArray[np.int8]
    offset: NDArray[np.int64]
    message: NDArray[np.int32]
    place: NDArray[np.int32]
    is_log: NDArray[np.bool_]


class Spans(NamedTuple):
    """Of each place its lowest and highest offset; -1 if it has none."""

    low: NDArray[np.int64]
    high: NDArray[np.int64]


@loop
def _at(placed: Placed, i: int) -> int:
    """The offset that a row gives a message; -1 if it gives none."""
    if placed.message[i] < 0 or not placed.is_log[placed.place[i]]:
        return -1
    operation = placed.operation[i]
    if operation == _RECEIVE or (operation == _SEND and placed.outcome[i] == _OK):
        return placed.offset[i]
    return -1


@loop
def measure(placed: Placed, spans: Spans) -> int:
    """Finds the lowest and the highest offset of each place; returns how many rows have one."""
    count = 0
    for i in range(placed.offset.size):
        offset = _at(placed, i)
        if offset >= 0:
            count += 1
            place = placed.place[i]
            if spans.low[place] < 0 or offset < spans.low[place]:
                spans.low[place] = offset
            if offset > spans.high[place]:
                spans.high[place] = offset
    return count


@loop
def fill(placed: Placed, start: NDArray[np.int64], message: NDArray[np.int32]) -> int:
    """Puts the message of each offset into `message` at `start[place] + offset`, -2 for several; there must
    be -1. Returns how many offsets there are."""
    count = 0
    for i in range(placed.offset.size):
        offset = _at(placed, i)
        if offset >= 0:
            slot = start[placed.place[i]] + offset
            known = message[slot]
            if known == -1:
                count += 1
                message[slot] = placed.message[i]
            elif known != placed.message[i]:
                message[slot] = -2
    return count


def find_shared_offsets(table: Table) -> Evidence:
    """Finds offsets at which two messages were."""
    placed = Placed(
        table.rows["operation"],
        table.rows["outcome"],
        table.rows["offset"],
        table.messages.of_row,
        table.places.of_row,
        table.places.is_log,
    )
    places = len(placed.is_log)
    spans = Spans(np.full(places, NONE, np.int64), np.full(places, NONE, np.int64))
    count = measure(placed, spans)
    used = spans.low >= 0
    if float(np.sum(spans.high[used] - spans.low[used] + 1.0)) > _SPAN_PER_ROW * count + _SPAN_SPARE:
        return _by_sorting(table)
    lengths = np.where(used, spans.high - spans.low + 1, 0)
    ends = np.cumsum(lengths)
    message = np.full(int(lengths.sum()), -1, np.int32)
    asked = fill(placed, ends - lengths - spans.low, message)
    slots = np.flatnonzero(message == -2)
    place = np.searchsorted(ends, slots, side="right")
    return _tell(table, asked, place, slots - (ends - lengths)[place] + spans.low[place])


def _by_sorting(table: Table) -> Evidence:
    rows = np.flatnonzero(_giving(table))
    at, (place, offset) = encode_all(table.places.of_row[rows], table.rows["offset"][rows])
    _, (slots, _) = encode_all(at, table.messages.of_row[rows])
    several = np.bincount(slots, minlength=len(place)) > 1
    return _tell(table, len(place), place[several], offset[several])


def _giving(table: Table) -> NDArray[np.bool_]:
    found = table.of(Operation.SEND) | table.of(Operation.RECEIVE)
    found &= (table.messages.of_row >= 0) & (table.rows["offset"] != NONE)
    found &= table.places.is_log[table.places.of_row]
    return found


def _tell(table: Table, asked: int, place: NDArray[np.int64], offset: NDArray[np.int64]) -> Evidence:
    """Tells of the offsets with several messages, which are ordered by place."""
    shown = []
    for at, each in zip(firsts(place), firsts(offset), strict=True):
        anomaly = Anomaly(
            _KIND,
            stream=int(table.places.stream[at]),
            partition=int(table.places.partition[at]),
            offset=each,
        )
        shown.append((anomaly, _shown(table, at, each)))
    return tell(table, shown, asked=asked, counts={_KIND: len(place)})


def _shown(table: Table, place: int, offset: int) -> list[Event]:
    rows = np.flatnonzero(table.rows["offset"] == offset)
    rows = rows[(table.places.of_row[rows] == place) & _giving(table)[rows]]
    messages = table.messages.of_row[rows]
    return [table.first(rows[messages == each]) for each in np.unique(messages)[:2]]
