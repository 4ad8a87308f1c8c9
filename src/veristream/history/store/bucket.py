"""Buckets: which part of a history contains the events of a partition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_STRIDE = 31
"""Neighbouring partitions get neighbouring buckets, which spreads them evenly; streams are shifted."""


def bucket_of(stream: int, partition: int, buckets: int) -> int:
    """Returns the bucket of a partition; events without a stream have one, too (-1, -1)."""
    return (stream * _STRIDE + partition) % buckets


def buckets_of(stream: NDArray[Any], partition: NDArray[Any], buckets: int) -> NDArray[np.int64]:
    """Returns `bucket_of` for each row."""
    return (stream.astype(np.int64) * _STRIDE + partition.astype(np.int64)) % buckets


def bucket_folder(history: Path, bucket: int) -> Path:
    """Returns the folder of a bucket's files."""
    return history / "events" / f"bucket={bucket:04d}"
