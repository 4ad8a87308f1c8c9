"""Numbers the partitions of a bucket, and counts the events of its streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.history.checks.context import Context
from veristream.history.checks.rows import Rows
from veristream.history.checks.table.codes import encode
from veristream.history.events import NONE, Operation
from veristream.native.loop import loop

_KEYS_MAX = 1 << 22  # keys of a stream and a partition that have a place in a table


@dataclass(frozen=True, slots=True)
class Places:
    """The partitions of a bucket, ascending; `of_row` is that of each row.

    Partition -1 of a stream is one of them: it has only events that are in no partition.
    """

    of_row: NDArray[np.int32]
    stream: NDArray[np.int64]
    partition: NDArray[np.int64]
    is_log: NDArray[np.bool_]
    is_queue: NDArray[np.bool_]


class Located(NamedTuple):
    """Where rows are; the key of a row is `(stream + 1) * width + partition + 1`."""

    stream: NDArray[np.int32]
    partition: NDArray[np.int32]
    width: int


@loop
def mark(located: Located, present: NDArray[np.bool_]) -> None:
    """Marks the keys that there are."""
    for i in range(located.stream.size):
        present[(located.stream[i] + 1) * located.width + located.partition[i] + 1] = True


@loop
def place(located: Located, codes: NDArray[np.int32], of_row: NDArray[np.int32]) -> None:
    """Gives each row the code of its key."""
    for i in range(located.stream.size):
        of_row[i] = codes[(located.stream[i] + 1) * located.width + located.partition[i] + 1]


@loop
def count(
    stream: NDArray[np.int32], operation: NDArray[np.int8], width: int, counts: NDArray[np.int64]
) -> None:
    """Adds up the events of each stream and operation: at `(stream + 1) * width + operation`."""
    for i in range(stream.size):
        counts[(stream[i] + 1) * width + operation[i]] += 1


def number_places(rows: Rows, context: Context) -> Places:
    """Numbers the partitions of the rows."""
    stream, partition = rows["stream"], rows["partition"]
    width = int(partition.max(initial=NONE)) + 2
    streams = context.manifest.streams
    if stream.strides == partition.strides == (0,):
        keys = (stream[:1] + 1) * np.int64(width) + partition[:1] + 1
        of_row = np.zeros(len(rows), np.int32)
    elif (len(streams) + 1) * width <= _KEYS_MAX:
        located = Located(np.ascontiguousarray(stream), np.ascontiguousarray(partition), width)
        present = np.zeros((len(streams) + 1) * width, np.bool_)
        mark(located, present)
        keys = np.flatnonzero(present)
        of_row = np.empty(len(rows), np.int32)
        place(located, np.cumsum(present, dtype=np.int32) - np.int32(1), of_row)
    else:
        of_row, keys = encode((stream + 1) * np.int64(width) + partition + 1)
    of_stream, of_partition = keys // width - 1, keys % width - 1
    is_log = np.array([each.offsets for each in streams] + [False])[of_stream]
    return Places(of_row, of_stream, of_partition, is_log, ~is_log & (of_stream != NONE))


def count_events(rows: Rows, streams: int) -> dict[tuple[int, Operation], int]:
    """Counts the events of each stream and operation; stream -1 are those without one."""
    width = len(Operation)
    counts = np.zeros((streams + 1) * width, np.int64)
    count(np.ascontiguousarray(rows["stream"]), rows["operation"], width, counts)
    return {
        (int(key) // width - 1, Operation(int(key) % width)): int(counts[key])
        for key in np.flatnonzero(counts)
    }
