"""What is left of a shared product, brought together in the driver, where it is small enough for that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from veristream.search.runs.graph import Graph
from veristream.search.shared.crew import STATES, SharedExploration, global_index
from veristream.search.shared.worker import Say

EDGE_BYTES = 48
"""What an edge takes here at most: as it comes, numbered, and sorted."""
STATE_BYTES = 64
"""What a state takes here beside its row, searched for components."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """A graph whose nodes are states of parts: their rows, and their indices among all states."""

    graph: Graph
    rows: NDArray[np.int64]
    indices: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Share:
    """What one part has: states that are left, and all edges that lead to them."""

    states: NDArray[np.uint32]
    rows: NDArray[np.int64]
    targets: NDArray[np.uint32]
    sources: NDArray[np.uint32]
    owners: NDArray[np.uint16]
    entries: NDArray[np.int64]

    def pieces(self) -> Iterator[bytes]:
        """As it travels."""
        for field in fields(self):
            yield getattr(self, field.name).tobytes()


def gather(shared: SharedExploration) -> Gathered:
    """What is left of all parts, with the edges between it."""
    shares = [_receive(shared, part) for part in range(shared.crew.part_count)]
    numbers, base = [], 0
    for part, share in enumerate(shares):
        number = np.full(shared.numbers[part][STATES], -1, np.int32)
        number[share.states] = np.arange(base, base + share.states.size)
        numbers.append(number)
        base += share.states.size
    indices = [global_index(part, 0) + share.states.astype(np.int64) for part, share in enumerate(shares)]
    rows = np.concatenate([share.rows for share in shares])
    return Gathered(_graph(shares, numbers, base), rows, np.concatenate(indices))


def _receive(shared: SharedExploration, part: int) -> Share:
    shared.crew.tell(part, Say.SHARE)
    told = [shared.crew.hear(part).payload for _ in fields(Share)]
    return Share(
        np.frombuffer(told[0], np.uint32),
        np.frombuffer(told[1], np.int64),
        np.frombuffer(told[2], np.uint32),
        np.frombuffer(told[3], np.uint32),
        np.frombuffer(told[4], np.uint16),
        np.frombuffer(told[5], np.int64),
    )


def _graph(shares: list[Share], numbers: list[NDArray[np.int32]], node_count: int) -> Graph:
    """The edges by their sources; an edge from a state that is not left is none."""
    sources = np.concatenate([_sources(share, numbers) for share in shares])
    targets = np.concatenate([numbers[part][share.targets] for part, share in enumerate(shares)])
    order = np.argsort(sources, kind="stable")[np.count_nonzero(sources < 0) :]
    entries = np.concatenate([share.entries for share in shares])[order]
    first = np.zeros(node_count + 1, np.int64)
    np.cumsum(np.bincount(sources[order], minlength=node_count), out=first[1:])
    return Graph(first, targets[order].astype(np.uint32), entries)


def _sources(share: Share, numbers: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    """The nodes that a part's edges leave; -1 for a state that is not left."""
    found = np.full(share.sources.size, -1, np.int32)
    for part, number in enumerate(numbers):
        theirs = share.owners == part
        found[theirs] = number[share.sources[theirs]]
    return found
