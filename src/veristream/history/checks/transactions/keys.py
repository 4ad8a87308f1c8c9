"""Keys of several columns in one, and places among sorted keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]
Bools = NDArray[np.bool_]

_KEY_MAX: Final = 1 << 62
_SPARE: Final = 1 << 16


def pack(columns: Sequence[NDArray[Any]]) -> Longs:
    """Returns a number for each row, in the order of the first column, then the next."""
    key = _from_zero(columns[0])
    width = int(key.max(initial=0)) + 1
    for column in columns[1:]:
        more = _from_zero(column)
        wide = int(more.max(initial=0)) + 1
        if width * wide >= _KEY_MAX:
            key, more = (np.unique(each, return_inverse=True)[1] for each in (key, more))
            width, wide = (int(each.max(initial=0)) + 1 for each in (key, more))
        key = key * wide + more
        width *= wide
    return key


def _from_zero(column: NDArray[Any]) -> Longs:
    values = column.astype(np.int64)
    return values - values.min() if values.size else values


class Places:
    """Says where keys are among sorted, different ones."""

    def __init__(self, known: Longs) -> None:
        self._known = known
        self._low = int(known[0]) if known.size else 0
        span = int(known[-1]) - self._low + 1 if known.size else 0
        self._table: NDArray[np.int32] | None = None
        if span <= 4 * known.size + _SPARE:
            self._table = np.full(span, -1, np.int32)
            self._table[known - self._low] = np.arange(known.size, dtype=np.int32)

    def find(self, keys: Longs) -> Longs:
        """Returns the place of each key, or -1."""
        if not self._known.size:
            return np.full(keys.size, -1, np.int64)
        if self._table is not None:
            inside = (keys >= self._low) & (keys < self._low + self._table.size)
            found = self._table[np.where(inside, keys - self._low, 0)].astype(np.int64)
            return np.where(inside, found, -1)
        place = np.searchsorted(self._known, keys).clip(max=self._known.size - 1)
        return np.where(self._known[place] == keys, place, -1)


def starts_of(*sorted_columns: NDArray[Any]) -> Longs:
    """Returns the first row of each run of equal rows."""
    rows = sorted_columns[0].size
    begins = np.ones(rows, np.bool_)
    begins[1:] = False
    for column in sorted_columns:
        begins[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(begins)


def spread(counts: Longs, starts: Longs) -> tuple[Longs, Longs]:
    """Returns, for rows that each have a run of `counts` places from `starts` on, each row and place."""
    row = np.repeat(np.arange(counts.size), counts)
    before = np.cumsum(counts) - counts
    return row, np.arange(row.size) - before[row] + starts[row]


def lowest(count: int, *columns: NDArray[Any]) -> Longs:
    """Returns the rows of the lowest keys, the lowest first; the first column counts most."""
    rows = np.arange(columns[0].size)
    if rows.size > 64 * count:  # so that few are sorted
        bound = np.partition(columns[0], count - 1)[count - 1]
        rows = np.flatnonzero(columns[0] <= bound)
    order = np.lexsort(tuple(column[rows] for column in reversed(columns)))
    found: Longs = rows[order[:count]]
    return found
