"""Nodes of a zone search as records, to send and to save them.

Nodes are restored in the order in which they were found, so that each gets the same number and the same
place in the chain of its discrete state.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from veristream.native.loop import loop
from veristream.search.reach.visited import Store, fingerprint
from veristream.search.zones.explore import ZoneExploration
from veristream.search.zones.kept import DISCRETE, NODE_LIMIT, NODES, TABLE_LIMIT, Nodes, add_zone
from veristream.search.zones.partition import record_words, zone_words
from veristream.search.zones.steps import Scratch, Shape, TimedCode, set_limits

Words = NDArray[np.int64]


def pack(
    zones: ZoneExploration,
    chosen: NDArray[np.int64],
    parents: NDArray[np.uint32],
    owners: NDArray[np.uint16],
) -> Words:
    """The chosen nodes as records, one in each row: as in `ZoneSharing`, and a last word with the parent's
    part above 32 bits and the depth below. `parents` are numbers within the part of the parent."""
    width, n = zones.shape.word_count, zones.shape.n
    records = np.zeros((len(chosen), saved_words(width, n)), np.int64)
    states = zones.nodes.states[chosen]
    records[:, :width] = zones.memory.rows.words.reshape(-1)[: zones.discrete_count * width].reshape(
        -1, width
    )[states]
    bounds = records.view(np.int32)[:, 2 * width : 2 * width + n * n]
    bounds[:] = zones.nodes.zones[: zones.state_count * n * n].reshape(-1, n * n)[chosen]
    records[:, -3] = parents
    records[:, -2] = zones.nodes.entries[chosen]
    records[:, -1] = owners.astype(np.int64) << 32 | zones.nodes.depths[chosen]
    return records


def saved_words(word_count: int, n: int) -> int:
    """The words of a record."""
    return int(record_words(word_count, n)) + 1


@loop
def restore_zones(
    code: TimedCode,
    shape: Shape,
    scratch: Scratch,
    store: Store,
    nodes: Nodes,
    tally: NDArray[np.int64],
    owners: NDArray[np.uint16],
    words: NDArray[np.int64],
    bounds: NDArray[np.int32],
    taken: int,
) -> int:
    """Restores nodes while there is room; returns how many are restored. `words` and `bounds` are the same
    memory, and `taken` records were restored before."""
    n = shape.n
    size = record_words(store.word_count, n) + 1
    for k in range(taken, words.size // size):
        if tally[DISCRETE] + 1 > tally[TABLE_LIMIT] or tally[NODES] + 1 > tally[NODE_LIMIT]:
            return k
        row = words.ctypes.data + 8 * size * k
        first = 2 * (size * k + store.word_count)
        zone = bounds[first : first + n * n]
        last = size * (k + 1)
        parent, entry = words[last - 3], words[last - 2]
        owner, depth = words[last - 1] >> 32, words[last - 1] & 0xFFFFFFFF
        print_ = fingerprint(row, store.word_count)
        set_limits(code, shape, scratch, row)
        node = add_zone(shape, scratch, store, nodes, tally, row, print_, zone, parent, entry, depth)
        assert node >= 0, "a node was kept before, so it is now"
        owners[node] = owner
    return words.size // size


def write_nodes(records: Words, word_count: int, folder: str, name: str) -> None:
    """Writes nodes as a Parquet file; raises OSError."""
    import pyarrow as pa  # slow to import, and only needed for checkpoints
    from pyarrow import parquet

    table = pa.table(
        {
            "row": _blobs(records[:, :word_count]),
            "zone": _blobs(records[:, word_count:-3]),
            "parent": pa.array(records[:, -3]),
            "entry": pa.array(records[:, -2]),
            "owner": pa.array(records[:, -1] >> 32),
            "depth": pa.array(records[:, -1] & 0xFFFFFFFF),
        }
    )
    path = os.path.join(folder, name)
    parquet.write_table(table, path + ".tmp", compression="zstd")
    os.replace(path + ".tmp", path)


def read_nodes(word_count: int, n: int, folder: str, name: str) -> Words:
    """Reads nodes from a Parquet file; raises OSError."""
    from pyarrow import parquet

    table = parquet.read_table(os.path.join(folder, name)).combine_chunks()
    records = np.zeros((len(table), saved_words(word_count, n)), np.int64)
    for column, place in (("row", slice(0, word_count)), ("zone", slice(word_count, -3))):
        width = word_count if column == "row" else int(zone_words(n))
        blob = table.column(column).chunk(0).buffers()[1]
        records[:, place] = np.frombuffer(blob, np.int64)[: len(table) * width].reshape(-1, width)
    records[:, -3] = table.column("parent").to_numpy()
    records[:, -2] = table.column("entry").to_numpy()
    records[:, -1] = table.column("owner").to_numpy() << 32 | table.column("depth").to_numpy()
    return records


def _blobs(words: Words):  # type: ignore[no-untyped-def]
    """Rows of words as a column of binary values."""
    import pyarrow as pa

    width = pa.binary(8 * words.shape[1])
    blob = pa.py_buffer(np.ascontiguousarray(words))
    return pa.FixedSizeBinaryArray.from_buffers(width, len(words), [None, blob])
