"""The edges of explored states, which workers keep without agreeing on an order.

Every worker appends to a region of its own, so the edges of one state are consecutive, and those of the
next state may be anywhere. Not all edges are of use: a state's last word decides whether they are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.native.loop import loop
from veristream.native.primitives import half_at, load_word, set_half, set_word, word_at
from veristream.search.memory import Reserve, reserve

FIRSTS, DEGREES, TARGETS, ENTRIES, KEPT = range(5)
"""What is at each of the addresses that a worker has."""


@dataclass(frozen=True, slots=True)
class Edges:
    """Memory for edges; numbers are reserved for `room` edges of each worker."""

    firsts: Reserve  # per state: the number of its first edge
    degrees: Reserve  # half words, per state: how many edges it has, plus 1; 0: it is not expanded
    targets: Reserve  # half words, per edge: the state that it leads to
    entries: Reserve  # per edge: the action below, acceptance marks above
    kept: NDArray[np.int64]  # per value of a state's last word: whether its edges are kept
    room: int

    @property
    def addresses(self) -> list[int]:
        """The addresses as loops expect them."""
        reserves = (self.firsts, self.degrees, self.targets, self.entries)
        return [*(part.address for part in reserves), int(self.kept.ctypes.data)]


def reserve_edges(kept: Sequence[int], budget: int, arena_size: int, workers: int) -> Edges:
    """Room for the edges of states in arenas of that size."""
    room = budget // 8
    return Edges(
        reserve(8 * (arena_size * workers + 1)),
        reserve(4 * arena_size * workers),
        reserve(4 * room * workers),
        reserve(8 * room * workers),
        np.array(kept, np.int64),
        room,
    )


@loop
def begin_edges(edges, last_word, index, first, count):  # type: ignore[no-untyped-def]
    """Notes where the edges of a state begin, whose last word is at the address; returns how many of its
    `count` edges are kept: all or none."""
    if word_at(edges[KEPT], load_word(last_word)) == 0:
        count = 0
    set_word(edges[FIRSTS], index, first)
    set_half(edges[DEGREES], index, count + 1)
    return count


@loop
def keep_edge(edges, source, edge, target, entry):  # type: ignore[no-untyped-def]
    """Stores the edge if its source's edges are kept; returns the number of the next edge."""
    if half_at(edges[DEGREES], source) == 1:
        return edge
    set_half(edges[TARGETS], edge, target)
    set_word(edges[ENTRIES], edge, entry)
    return edge + 1


class Numbering(NamedTuple):
    """States numbered without the gaps between arenas, as *nodes*: where the states and the nodes of each
    arena begin, with a last item that is greater than all."""

    states: NDArray[np.int64]
    nodes: NDArray[np.int64]


@loop
def copy_edges(
    edges: NDArray[np.int64],
    numbering: Numbering,
    first_node: int,
    last_node: int,
    firsts: NDArray[np.int64],
    targets: NDArray[np.uint32],
    entries: NDArray[np.int64],
) -> None:
    """Copies the edges of nodes first_node..last_node-1 to where `firsts` says, with nodes as targets."""
    arena = 0
    for node in range(first_node, last_node):
        while node >= numbering.nodes[arena + 1]:
            arena += 1
        edge = word_at(edges[FIRSTS], node - numbering.nodes[arena] + numbering.states[arena])
        at = firsts[node]
        for k in range(firsts[node + 1] - at):
            target = half_at(edges[TARGETS], edge + k)
            home = 0
            while target >= numbering.states[home + 1]:
                home += 1
            targets[at + k] = target - numbering.states[home] + numbering.nodes[home]
            entries[at + k] = word_at(edges[ENTRIES], edge + k)
