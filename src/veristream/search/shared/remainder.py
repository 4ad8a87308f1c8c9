"""What a look leaves of a shared product, gathered in the driver if it is small enough."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from veristream.search.runs.graph import Graph
from veristream.search.shared.exploration import CrewExploration, global_index
from veristream.search.shared.worker import MessageKind

EDGE_BYTES = 48
"""The most memory that an edge needs in the driver: as received, numbered, and sorted."""
STATE_BYTES = 64
"""The memory that a state needs in the driver beside its row, to find components."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """A graph of states of all parts, with their rows and their indices among all states."""

    graph: Graph
    rows: NDArray[np.int64]
    indices: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Share:
    """What is left of one part: states, and all edges that lead to them."""

    states: NDArray[np.uint32]
    rows: NDArray[np.int64]
    targets: NDArray[np.uint32]
    sources: NDArray[np.uint32]
    owners: NDArray[np.uint16]
    entries: NDArray[np.int64]

    def pieces(self) -> Iterator[bytes]:
        """Returns the bytes of each array, in order."""
        for field in fields(self):
            yield getattr(self, field.name).tobytes()


def gather(shared: CrewExploration) -> Gathered:
    """Returns what is left of all parts, with the edges between the states."""
    shares = [_receive(shared, part) for part in range(shared.crew.part_count)]
    numbers, base = [], 0
    for part, share in enumerate(shares):
        number = np.full(shared.counters[part].states, -1, np.int32)
        number[share.states] = np.arange(base, base + share.states.size)
        numbers.append(number)
        base += share.states.size
    indices = [global_index(part, 0) + share.states.astype(np.int64) for part, share in enumerate(shares)]
    rows = np.concatenate([share.rows for share in shares])
    return Gathered(_graph(shares, numbers, base), rows, np.concatenate(indices))


def _receive(shared: CrewExploration, part: int) -> Share:
    shared.crew.tell(part, MessageKind.SHARE)
    arrays = [shared.crew.hear(part).payload for _ in fields(Share)]
    return Share(
        np.frombuffer(arrays[0], np.uint32),
        np.frombuffer(arrays[1], np.int64),
        np.frombuffer(arrays[2], np.uint32),
        np.frombuffer(arrays[3], np.uint32),
        np.frombuffer(arrays[4], np.uint16),
        np.frombuffer(arrays[5], np.int64),
    )


def _graph(shares: list[Share], numbers: list[NDArray[np.int32]], node_count: int) -> Graph:
    """Returns the edges sorted by source, without those that leave removed states."""
    sources = np.concatenate([_sources(share, numbers) for share in shares])
    targets = np.concatenate([numbers[part][share.targets] for part, share in enumerate(shares)])
    order = np.argsort(sources, kind="stable")[np.count_nonzero(sources < 0) :]
    entries = np.concatenate([share.entries for share in shares])[order]
    first = np.zeros(node_count + 1, np.int64)
    np.cumsum(np.bincount(sources[order], minlength=node_count), out=first[1:])
    return Graph(first, targets[order].astype(np.uint32), entries)


def _sources(share: Share, numbers: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    """Returns the source node of each of a part's edges; -1 for a removed state."""
    found = np.full(share.sources.size, -1, np.int32)
    for part, number in enumerate(numbers):
        theirs = share.owners == part
        found[theirs] = number[share.sources[theirs]]
    return found
