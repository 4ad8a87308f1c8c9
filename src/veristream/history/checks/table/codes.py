"""Small numbers in place of keys, in the order of the keys."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_SPARE = 1 << 16


def encode(keys: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Returns for each key its place among the different keys, and these in ascending order."""
    if not keys.size:
        return np.empty(0, np.int32), np.empty(0, np.int64)
    low, high = int(keys.min()), int(keys.max())
    if high - low > 4 * keys.size + _SPARE:
        found, codes = np.unique(keys, return_inverse=True)
        return codes.astype(np.int32), found
    if low == high:
        return np.zeros(keys.size, np.int32), np.array([low])
    shifted = keys - low
    present = np.zeros(high - low + 1, np.bool_)
    present[shifted] = True
    rank = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return rank[shifted], np.flatnonzero(present) + low


def encode_all(*columns: NDArray[Any]) -> tuple[NDArray[np.int32], list[NDArray[np.int64]]]:
    """Returns for each row its place among the different rows, ordered by the first column, then by the
    next, and the columns of these."""
    codes, values = encode(columns[0].astype(np.int64))
    found = [values]
    for column in columns[1:]:
        more, values = encode(column.astype(np.int64))
        width = max(1, len(values))
        codes, pairs = encode(codes.astype(np.int64) * width + more)
        found = [each[pairs // width] for each in found] + [values[pairs % width]]
    return codes, found
