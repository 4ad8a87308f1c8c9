"""Strongly connected components and paths in an explored graph, in native code.

The graph is in compressed rows: node v has the edges first[v]..first[v + 1] - 1, each with a target
and an entry (the action's index below, acceptance marks above). Only nodes of one *region* are considered,
so that a component can be decomposed again after nodes were removed from it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from veristream.kernel.native import call_1, call_4, word_at

NONE = -1
TOO_SMALL = -2


class Graph(NamedTuple):
    """The explored part: `first` has one element more than there are nodes."""

    first: NDArray[np.int64]
    targets: NDArray[np.uint32]
    entries: NDArray[np.int64]


@njit(nogil=True, cache=True)
def components(graph, nodes, region, mine, found):  # type: ignore[no-untyped-def]
    """Tarjan's algorithm over the nodes v with region[v] == mine, starting from each of `nodes`.

    Writes the number of each node's component into `found`, counted from 0 in the order in which they are
    completed; returns how many there are. The path is an explicit stack, without recursion.
    """
    size = nodes.size
    order = np.full(graph.first.size - 1, -1, np.int64)  # when a node was reached
    low = np.zeros(graph.first.size - 1, np.int64)
    waiting = np.empty(size, np.int64)  # Tarjan's stack
    path = np.empty(size, np.int64)
    turn = np.empty(size, np.int64)  # the next edge of each node on the path
    waiting_count = path_count = reached = count = 0
    for start in nodes:
        if order[start] >= 0:
            continue
        order[start] = low[start] = reached
        reached += 1
        waiting[waiting_count] = path[path_count] = start
        turn[path_count] = graph.first[start]
        waiting_count += 1
        path_count += 1
        while path_count > 0:
            node = path[path_count - 1]
            edge = turn[path_count - 1]
            if edge < graph.first[node + 1]:
                turn[path_count - 1] = edge + 1
                target = np.int64(graph.targets[edge])
                if target >= order.size or region[target] != mine:
                    continue
                if order[target] < 0:
                    order[target] = low[target] = reached
                    reached += 1
                    waiting[waiting_count] = path[path_count] = target
                    turn[path_count] = graph.first[target]
                    waiting_count += 1
                    path_count += 1
                elif found[target] == NONE:
                    low[node] = min(low[node], order[target])
                continue
            path_count -= 1
            if path_count > 0:
                parent = path[path_count - 1]
                low[parent] = min(low[parent], low[node])
            if low[node] == order[node]:
                while True:
                    waiting_count -= 1
                    member = waiting[waiting_count]
                    found[member] = count
                    if member == node:
                        break
                count += 1
    return count


@njit(nogil=True, cache=True)
def summarise(graph, nodes, found, count):  # type: ignore[no-untyped-def]
    """For each component: the marks on its inner edges, whether it has an inner edge, its least node."""
    marks = np.zeros(count, np.int64)
    cyclic = np.zeros(count, np.bool_)
    least = np.full(count, np.int64(1) << 62, np.int64)
    for node in nodes:
        component = found[node]
        least[component] = min(least[component], node)
        for edge in range(graph.first[node], graph.first[node + 1]):
            target = np.int64(graph.targets[edge])
            if target < found.size and found[target] == component:
                cyclic[component] = True
                marks[component] |= graph.entries[edge] >> 32
    return marks, cyclic, least


@njit(nogil=True, cache=True)
def enabled_units(successors, rows, width, nodes, units, scratch, enabled):  # type: ignore[no-untyped-def]
    """Writes the fairness units that each of `nodes` enables into `enabled`.

    `units` has a row of bit words for each action. Returns False if the scratch is too small.
    """
    capacity = scratch.shape[0] // width
    actions = np.empty(capacity, np.int64)
    for k in range(nodes.size):
        row = rows + 8 * width * nodes[k]
        count = call_4(successors, row, scratch.ctypes.data, actions.ctypes.data, capacity)
        if count < 0:
            return False
        for step in range(count):
            for word in range(units.shape[1]):
                enabled[k, word] |= units[actions[step] & 0xFFFFFFFF, word]
    return True


@njit(nogil=True, cache=True)
def taken_units(graph, nodes, found, component, units, taken):  # type: ignore[no-untyped-def]
    """Writes the fairness units with an action on an inner edge of the component into `taken`."""
    for node in nodes:
        for edge in range(graph.first[node], graph.first[node + 1]):
            target = np.int64(graph.targets[edge])
            action = graph.entries[edge] & 0xFFFFFFFF
            if target < found.size and found[target] == component and action < units.shape[0]:
                for word in range(units.shape[1]):
                    taken[word] |= units[action, word]


class Letters(NamedTuple):
    """How the product is computed, to find out which step an edge represents: the code of steps and of
    state propositions, the rows and their width, and the automaton (see `kernel.product`)."""

    successors: int
    propositions: int
    rows: int
    width: int
    first: NDArray[np.int64]
    positive: NDArray[np.int64]
    negative: NDArray[np.int64]


@njit(nogil=True, cache=True)
def name_steps(graph, letters, nodes, groups, found, component, scratch, named):  # type: ignore[no-untyped-def]
    """Writes the number of the step that each inner edge of the component represents into `named`.

    `nodes` come in groups of one state of the system each. Steps are numbered from 0, consecutively for
    each state. Returns how many there are; NONE if one is on no inner edge, so that the component is not
    closed; TOO_SMALL if the scratch is too small.
    """
    capacity = scratch.shape[0] // letters.width
    actions = np.empty(capacity, np.int64)
    taken = np.ones(capacity, np.bool_)
    base = count = 0
    bits = np.int64(0)
    for k in range(nodes.size):
        row = letters.rows + 8 * letters.width * nodes[k]
        if k == 0 or groups[k] != groups[k - 1]:
            if not taken[:count].all():
                return NONE
            base += count
            count = call_4(letters.successors, row, scratch.ctypes.data, actions.ctypes.data, capacity)
            if count < 0:
                return TOO_SMALL
            taken[:count] = False
            bits = call_1(letters.propositions, row) & 0xFFFFFFFF
        state = word_at(row, letters.width - 1)
        edge = graph.first[nodes[k]]
        for step in range(count):
            letter = bits | (actions[step] & 0x7FFFFFFF00000000)
            for way in range(letters.first[state], letters.first[state + 1]):
                positive = letters.positive[way]
                if letter & positive == positive and letter & letters.negative[way] == 0:
                    target = np.int64(graph.targets[edge])
                    if target < found.size and found[target] == component:
                        taken[step] = True
                        named[edge] = base + step
                    edge += 1
    return base + count if taken[:count].all() else NONE


@njit(nogil=True, cache=True)
def nearest(graph, found, component, start, goal, came):  # type: ignore[no-untyped-def]
    """Breadth-first inside the component from `start` to the nearest edge with goal[edge].

    Returns that edge, or NONE; came[v] is the edge by which v was reached, NONE for `start`.
    """
    queue = [start]
    came[start] = NONE
    head = 0
    while head < len(queue):
        node = queue[head]
        head += 1
        for edge in range(graph.first[node], graph.first[node + 1]):
            target = np.int64(graph.targets[edge])
            if target >= found.size or found[target] != component:
                continue
            if goal[edge]:
                return edge
            if came[target] == -2:
                came[target] = edge
                queue.append(target)
    return NONE


@njit(nogil=True, cache=True)
def source_of(graph, edge):  # type: ignore[no-untyped-def]
    """The source of the edge, by bisection."""
    low, high = 0, graph.first.size - 1
    while high - low > 1:
        middle = (low + high) // 2
        if graph.first[middle] <= edge:
            low = middle
        else:
            high = middle
    return low
