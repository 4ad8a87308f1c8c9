"""Strongly connected components of a large graph, by Tarjan's algorithm as native code."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.native.loop import loop


class Graph(NamedTuple):
    """Edges of node *n* lead to `to[first[n]]` up to, not including, `to[first[n + 1]]`, in order."""

    first: NDArray[np.int64]
    to: NDArray[np.int32]

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return self.first.size - 1


class _Walk(NamedTuple):
    """Room for a depth-first search, of one number for each node: the order in which it was found, the
    lowest order that it leads to, the next edge to take, the nodes of no component yet, and the path."""

    order: NDArray[np.int32]
    low: NDArray[np.int32]
    next: NDArray[np.int64]
    open: NDArray[np.int32]
    path: NDArray[np.int32]


@loop
def _search(graph: Graph, walk: _Walk, component: NDArray[np.int32]) -> int:
    """Gives each node the number of its component; returns how many there are."""
    found = 0
    components = 0
    opened = 0
    for root in range(component.size):
        if walk.order[root] != 0:
            continue
        length = 1
        walk.path[0] = root
        found += 1
        walk.order[root] = found
        walk.low[root] = found
        walk.open[opened] = root
        opened += 1
        while length > 0:
            node = walk.path[length - 1]
            edge = walk.next[node]
            if edge < graph.first[node + 1]:
                walk.next[node] = edge + 1
                target = graph.to[edge]
                if walk.order[target] == 0:
                    found += 1
                    walk.order[target] = found
                    walk.low[target] = found
                    walk.open[opened] = target
                    opened += 1
                    walk.path[length] = target
                    length += 1
                elif component[target] < 0 and walk.order[target] < walk.low[node]:
                    walk.low[node] = walk.order[target]
            else:
                length -= 1
                if length > 0:
                    parent = walk.path[length - 1]
                    if walk.low[node] < walk.low[parent]:
                        walk.low[parent] = walk.low[node]
                if walk.low[node] == walk.order[node]:
                    member = -1
                    while member != node:
                        opened -= 1
                        member = walk.open[opened]
                        component[member] = components
                    components += 1
    return components


def components_of(graph: Graph) -> tuple[NDArray[np.int32], int]:
    """Returns the component of each node, and how many there are."""
    nodes = graph.nodes
    component = np.full(nodes, -1, np.int32)
    room = [np.zeros(nodes, np.int32) for _ in range(4)]
    walk = _Walk(room[0], room[1], graph.first[:-1].copy(), room[2], room[3])
    return component, _search(graph, walk, component)
