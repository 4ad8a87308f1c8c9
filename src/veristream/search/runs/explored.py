"""The explored part of a product as a graph, with nodes numbered without gaps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristream.kernel.layout import Row
from veristream.search.memory import OutOfMemoryError
from veristream.search.reach.edges import Edges, Numbering, copy_edges
from veristream.search.reach.explore import Exploration
from veristream.search.runs.graph import Graph
from veristream.search.threads import divide

Words = NDArray[np.int64]

GROWTH_MAX = 4  # of the product between two looks for cycles


@dataclass(frozen=True, slots=True)
class Explored:
    """A graph whose nodes are states."""

    exploration: Exploration
    graph: Graph
    numbering: Numbering | None = None  # None: nodes and states have the same numbers

    @property
    def byte_count(self) -> int:
        """Memory of the graph, if it is a copy."""
        return 0 if self.numbering is None else sum(part.nbytes for part in self.graph)

    def states(self, nodes: Words) -> Words:
        """The states that nodes stand for."""
        if self.numbering is None:
            return nodes
        arenas = np.searchsorted(self.numbering.nodes, nodes, side="right") - 1
        shifts = self.numbering.states - self.numbering.nodes
        states: Words = nodes + shifts[arenas]
        return states

    def row(self, node: int) -> Row:
        """The row of a node."""
        return self.exploration.row(self._state(node))

    def rows_to(self, node: int) -> list[Row]:
        """The rows from the initial state to a node, along the breadth-first tree."""
        return [self.exploration.row(state) for state in self.exploration.path(self._state(node))]

    def _state(self, node: int) -> int:
        return int(self.states(np.array([node], np.int64))[0])


def next_look(states: int, exploration: object) -> int:
    """How many states there are to be when cycles are looked for again, after so many.

    Several workers explore faster than they look for cycles, so they explore more in between: still, no
    violation waits longer than it would with one worker, which looks whenever the product has doubled.
    """
    workers = len(exploration.own) if isinstance(exploration, Exploration) else 1
    return min(1 + workers, GROWTH_MAX) * states


def explored_part(exploration: Exploration) -> Explored:
    """The states found so far with the edges that are kept of them. Raises OutOfMemoryError."""
    edges = exploration.memory.edges
    assert edges is not None
    if len(exploration.own) == 1:
        return Explored(exploration, _as_it_is(exploration, edges))
    copied = 12 * exploration.edge_count + 8 * exploration.state_count
    if exploration.byte_count + copied > exploration.budget:
        raise OutOfMemoryError
    ranges = exploration.ranges()
    sizes = np.array([0, *(end - first for first, end in ranges)])
    beyond = np.int64(1 << 62)
    states = np.array([*(first for first, _ in ranges), beyond])
    nodes = np.append(np.cumsum(sizes)[:-1], beyond)
    numbering = Numbering(states, nodes)
    return Explored(exploration, _copy(exploration, edges, numbering), numbering)


def _as_it_is(exploration: Exploration, edges: Edges) -> Graph:
    """One worker expands states, and numbers edges, in the order of the states."""
    node_count, edge_count = exploration.expanded, exploration.edge_count
    first = edges.firsts.words
    first[node_count] = edge_count
    targets = edges.targets.words.view(np.uint32)
    return Graph(first[: node_count + 1], targets[:edge_count], edges.entries.words[:edge_count])


def _copy(exploration: Exploration, edges: Edges, numbering: Numbering) -> Graph:
    """Copies the edges in the order of the nodes, with nodes as targets."""
    degrees = edges.degrees.words.view(np.uint32)
    known = np.concatenate([degrees[first:end] for first, end in exploration.ranges()])
    first = np.zeros(known.size + 1, np.int64)
    np.cumsum(known - (known > 0), dtype=np.int64, out=first[1:])
    graph = Graph(first, np.empty(first[-1], np.uint32), np.empty(first[-1], np.int64))
    addresses = np.array(edges.addresses, np.int64)

    def fill(first_node: int, last_node: int) -> None:
        copy_edges(addresses, numbering, first_node, last_node, *graph)

    divide(fill, known.size, len(exploration.own))
    return graph
