"""The index of every process: exact gaps and repetitions, and clocks that jumped.

A piece is a range of indices of all processes. A task owns one: it reads three columns of the row groups
that can have such indices, puts each time at the place of its index, and looks at neighbours. What is at
the borders of pieces is compared afterwards. So a task needs memory for its piece only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from veristream.errors import ModelError
from veristream.history.events import Event, Operation, Outcome
from veristream.history.job.layout import Group, Layout, Range
from veristream.history.manifest import Manifest
from veristream.history.reasons import INDEX_HINT, tell_index
from veristream.history.store.reader import read_batches

PIECE_ROWS: Final = 8_388_608
"""About how many events a piece has at most; a task needs 9 bytes for each, 80 if an index is wrong."""

_INDEX_MAX: Final = (1 << 63) - 1
_CUTS_MAX: Final = 1024
_NOTHING: Final = np.empty(0, np.int64)

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """An index of a process that is not the expected one."""

    process: int
    expected: int
    found: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What a piece has: a row for each process in it, with its first and last index and their times.

    `faults` are the first gap and the first repetition, if there are any.
    """

    process: Longs
    first: Longs
    first_ns: Longs
    last: Longs
    last_ns: Longs
    jumped: tuple[int, ...]
    faults: tuple[Fault, ...]


def cut(groups: Sequence[Group], rows_max: int = PIECE_ROWS) -> list[Range]:
    """Returns pieces, each from the first to before the second index, of about `rows_max` events at most.

    A row group's indices are taken to be spread evenly over its range, so this is an estimate.
    """
    known = [(group.rows, *group.index) for group in groups if group.index is not None and group.rows]
    total = sum(group.rows for group in groups)
    count = -(-total // rows_max)
    if count <= 1 or not known:
        return [(0, _INDEX_MAX)]
    rows, low, high = (np.array(column, np.float64) for column in zip(*known, strict=True))
    at = np.unique(np.concatenate([low, high + 1]))
    at = at[np.linspace(0, at.size - 1, min(at.size, _CUTS_MAX)).astype(np.int64)]
    below = np.array([(rows * ((each - low) / (high + 1 - low)).clip(0, 1)).sum() for each in at])
    wanted = np.arange(1, count) * (total / count)
    borders = np.unique(np.interp(wanted, below, at).astype(np.int64)).tolist()
    return list(zip([0, *borders], [*borders, _INDEX_MAX], strict=True))


def scan(layout: Layout, piece: Range) -> Seen:
    """Reads a piece and looks at all neighbours in it."""
    begin, end = piece
    reader = _Reader(layout)
    expected = (reader.count() - begin).clip(0, end - begin)
    starts = np.concatenate([[0], np.cumsum(expected)])
    shift, limit = starts[:-1] - begin, begin + expected
    times, filled = np.empty(starts[-1], np.int64), np.zeros(starts[-1], np.bool_)
    read = 0
    for process, index, time_ns in reader.rows(piece):
        if (index >= limit[process]).any():
            break
        place = shift[process] + index
        times[place], filled[place] = time_ns, True
        read += index.size
    else:
        # As many as there are places, none of them empty: no index is missing, none is there twice.
        if read == filled.size and filled.all():
            return _regular(begin, expected, starts, times)
    columns = [np.concatenate(each) for each in zip(*reader.rows(piece), strict=True)] or [_NOTHING] * 3
    order = np.lexsort((columns[1], columns[0]))
    return _irregular(*(column[order] for column in columns))


def merge(manifest: Manifest, pieces: Sequence[Seen]) -> NDArray[np.bool_]:
    """Compares the borders of the pieces, which are in the order of their ranges.

    Returns whether the clock of each process jumped. Raises a ModelError for the lowest process that has a
    gap (in a complete recording) or a repetition, at its lowest index.
    """
    jumped = np.zeros(len(manifest.processes), np.bool_)
    faults = [fault for piece in pieces for fault in piece.faults]
    last = np.full(len(manifest.processes), -1, np.int64)
    last_ns = np.full(len(manifest.processes), np.iinfo(np.int64).min, np.int64)
    for piece in pieces:
        jumped[list(piece.jumped)] = True
        jumped[piece.process[piece.first_ns < last_ns[piece.process]]] = True
        expected = last[piece.process] + 1
        faults += map(Fault, *(column[piece.first != expected].tolist() for column in (
            piece.process, expected, piece.first
        )))  # fmt: skip
        last[piece.process], last_ns[piece.process] = piece.last, piece.last_ns
    wrong = [fault for fault in faults if manifest.complete or fault.found < fault.expected]
    if wrong:
        fault = min(wrong)
        found = Event(fault.process, fault.found, 0, Operation.CLOSE, Outcome.OK)
        name = manifest.processes[fault.process].name
        raise ModelError(tell_index(name, fault.expected, found), hint=INDEX_HINT)
    return jumped


class _Reader:
    """Reads three columns of a history; a row that cannot be in one is an error."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._processes = len(layout.manifest.processes)

    def count(self) -> Longs:
        """Returns how many events each process has."""
        counts = np.zeros(self._processes, np.int64)
        for path, groups in self._files((0, _INDEX_MAX)):
            file = self._layout.open(path)
            for group in groups:
                batch = self._layout.read(group, ["process"], file)
                process = self._known(group, batch)[0]
                counts += np.bincount(process, minlength=self._processes)
        return counts

    def rows(self, piece: Range) -> Iterator[tuple[NDArray[Any], ...]]:
        """Yields process, index and time of the events that are in the piece."""
        begin, end = piece
        for path, groups in self._files(piece):
            file = self._layout.open(path)
            for group in groups:
                batch = self._layout.read(group, ["process", "index", "time_ns"], file)
                process, index, time_ns = self._known(group, batch)
                if (index < 0).any():
                    raise self._fault(group)
                if begin == 0 and end == _INDEX_MAX:
                    yield process, index, time_ns
                else:
                    inside = (index >= begin) & (index < end)
                    yield process[inside], index[inside], time_ns[inside]

    def _files(self, piece: Range) -> Iterator[tuple[Path, Iterator[Group]]]:
        begin, end = piece
        some = (
            group
            for group in self._layout.groups
            if group.index is None or (group.index[0] < end and group.index[1] >= begin)
        )
        return groupby(some, key=lambda group: group.path)

    def _known(self, group: Group, batch: pa.RecordBatch) -> list[NDArray[Any]]:
        if any(column.null_count for column in batch.columns):
            raise self._fault(group)
        columns = [column.to_numpy() for column in batch.columns]
        if ((columns[0] < 0) | (columns[0] >= self._processes)).any():
            raise self._fault(group)
        return columns

    def _fault(self, group: Group) -> Exception:
        """Raises the error that says which row is wrong."""
        for _ in read_batches(group.path, self._layout.manifest, group.bucket):
            pass
        return AssertionError(f"{group.path}: row group {group.number} is wrong, and its rows are not")


def _regular(begin: int, counts: Longs, starts: Longs, times: Longs) -> Seen:
    """Sums up a piece in which each process has the indices from `begin` on."""
    falls = np.flatnonzero(times[1:] < times[:-1]) + 1
    falls = falls[~np.isin(falls, starts)]
    jumped = np.unique(np.searchsorted(starts, falls, side="right") - 1)
    process = np.flatnonzero(counts)
    first = np.full(process.size, begin, np.int64)
    first_at, last_at = starts[process], starts[process + 1] - 1
    last = begin + counts[process] - 1
    return Seen(process, first, times[first_at], last, times[last_at], tuple(jumped.tolist()), ())


def _irregular(process: NDArray[Any], index: Longs, time_ns: Longs) -> Seen:
    """Sums up a piece that is ordered by process and index."""
    same = process[1:] == process[:-1]
    step = index[1:] - index[:-1]
    faults = []
    for wrong in (same & (step > 1), same & (step == 0)):
        for row in np.flatnonzero(wrong)[:1].tolist():
            faults.append(Fault(int(process[row]), int(index[row]) + 1, int(index[row + 1])))
    jumped = np.unique(process[1:][same & (time_ns[1:] < time_ns[:-1])])
    begins = np.flatnonzero(np.concatenate([[True], ~same])[: process.size])
    ends = np.append(begins[1:], process.size) - 1 if begins.size else begins
    return Seen(
        process[begins].astype(np.int64),
        index[begins],
        time_ns[begins],
        index[ends],
        time_ns[ends],
        tuple(jumped.tolist()),
        tuple(faults),
    )
