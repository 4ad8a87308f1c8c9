"""Strongly connected components and paths in an explored graph, in native code.

The graph is in compressed rows: node v has the edges first[v]..first[v + 1] - 1, each with a target
and an entry (the action's index below, acceptance marks above). A decomposition considers only some nodes,
so that a component can be decomposed again after nodes were removed from it.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.native.loop import loop
from veristream.native.primitives import call_1, call_4, prefetch, word_at
from veristream.search.reach.visited import same_row
from veristream.search.threads import divide

Words = NDArray[np.int64]
Bits = Annotated[NDArray[np.int64], 2]
"""A row of bit words for each item."""

NONE = -1
TOO_SMALL = -2


class Graph(NamedTuple):
    """The explored part: `first` has one element more than there are nodes."""

    first: NDArray[np.int64]
    targets: NDArray[np.uint32]
    entries: NDArray[np.int64]


AHEAD = 32  # so many edges before an edge is copied, its target's number is prefetched
TARGETS_AHEAD = 8
ABSENT = 0xFFFFFFFF


class Part(NamedTuple):
    """Some nodes of a graph with the edges between them. The nodes have numbers of their own, without gaps:
    what is known of each is then close together, which is most of the time of a decomposition."""

    bounds: NDArray[np.int64]  # of each node: its first edge, and one past its last
    targets: NDArray[np.uint32]


@loop
def copy_part(
    graph: Graph, nodes: Words, numbers: NDArray[np.uint32], first_node: int, last_node: int, part: Part
) -> None:
    """Copies the edges of nodes[first_node:last_node] that stay in a part, to where they are in the graph;
    `numbers` has the number of each node of the graph in the part, or ABSENT."""
    known, edge_count = numbers.size, graph.targets.size
    for k in range(first_node, last_node):
        at = graph.first[nodes[k]]
        part.bounds[2 * k] = at
        for edge in range(at, graph.first[nodes[k] + 1]):
            if edge + AHEAD < edge_count:
                prefetch(numbers.ctypes.data + 4 * np.int64(graph.targets[edge + AHEAD]))
            target = np.int64(graph.targets[edge])
            if target < known and numbers[target] != ABSENT:
                part.targets[at] = numbers[target]
                at += 1
        part.bounds[2 * k + 1] = at


UNREACHED, FINISHED = -1, (1 << 31) - 1


class Stacks(NamedTuple):
    """The memory of Tarjan's algorithm."""

    order: NDArray[np.int32]  # when a node was reached; UNREACHED before, FINISHED with its component
    waiting: NDArray[np.int32]  # Tarjan's stack
    path: NDArray[np.int32]
    low: NDArray[np.int32]  # the earliest node that waits and is reached from each node on the path
    turn: NDArray[np.int64]  # the next edge of each node on the path


def components(part: Part) -> tuple[Words, int]:
    """The component of each node of a part, by Tarjan's algorithm, and how many there are. They are
    numbered in the order in which they are completed."""
    count = part.bounds.size // 2
    found = np.empty(count, np.int64)
    waiting, path, low = (np.empty(count, np.int32) for _ in range(3))
    order = np.full(count, UNREACHED, np.int32)
    stacks = Stacks(order, waiting, path, low, np.empty(count, np.int64))
    return found, int(_components(part, found, stacks))


@loop
def _expect_targets(part, order, node):  # type: ignore[no-untyped-def]
    """Prefetches what is known of the first targets of a node."""
    first, last = part.bounds[2 * node], part.bounds[2 * node + 1]
    for edge in range(first, min(first + TARGETS_AHEAD, last)):
        prefetch(order.ctypes.data + 4 * np.int64(part.targets[edge]))


@loop
def _components(part: Part, found: Words, stacks: Stacks) -> int:
    """The path is an explicit stack, without recursion."""
    order, low = stacks.order, stacks.low
    waiting, path, turn = stacks.waiting, stacks.path, stacks.turn
    waiting_count = path_count = reached = count = 0
    for start in range(order.size):
        if order[start] != UNREACHED:
            continue
        order[start] = low[0] = reached
        reached += 1
        waiting[waiting_count] = path[0] = start
        turn[0] = part.bounds[2 * start]
        waiting_count += 1
        path_count = 1
        while path_count > 0:
            top = path_count - 1
            node, edge, lowest = path[top], turn[top], low[top]
            last = part.bounds[2 * node + 1]
            while edge < last:
                target = np.int64(part.targets[edge])
                edge += 1
                if order[target] == UNREACHED:
                    order[target] = low[path_count] = reached
                    reached += 1
                    waiting[waiting_count] = path[path_count] = target
                    turn[path_count] = part.bounds[2 * target]
                    _expect_targets(part, order, target)
                    waiting_count += 1
                    path_count += 1
                    break
                lowest = min(lowest, order[target])
            low[top], turn[top] = lowest, edge
            if path_count > top + 1:
                continue
            path_count -= 1
            if low[top] < order[node]:
                low[top - 1] = min(low[top - 1], low[top])
                continue
            while True:
                waiting_count -= 1
                member = waiting[waiting_count]
                found[member] = count
                order[member] = FINISHED
                if member == node:
                    break
            count += 1
    return count


class Summary(NamedTuple):
    """For each component: the marks on its inner edges, whether it has an inner edge, its least node."""

    marks: NDArray[np.int64]
    cyclic: NDArray[np.bool_]
    least: NDArray[np.int64]


def summarise(graph: Graph, nodes: Words, found: Words, base: int, count: int, workers: int) -> Summary:
    """The summary of the `count` components of `nodes`, the first of which is `base` in `found`."""
    parts: list[Summary] = []

    def work(first: int, last: int) -> None:
        least = np.full(count, 1 << 62, np.int64)
        part = Summary(np.zeros(count, np.int64), np.zeros(count, np.bool_), least)
        _summarise(graph, nodes[first:last], found, base, part)
        parts.append(part)

    divide(work, nodes.size, workers)
    total = parts[0]
    for part in parts[1:]:
        np.bitwise_or(total.marks, part.marks, out=total.marks)
        np.logical_or(total.cyclic, part.cyclic, out=total.cyclic)
        np.minimum(total.least, part.least, out=total.least)
    return total


@loop
def _summarise(graph: Graph, nodes: Words, found: Words, base: int, summary: Summary) -> None:
    marks, cyclic, least = summary.marks, summary.cyclic, summary.least
    for node in nodes:
        component = found[node] - base
        least[component] = min(least[component], node)
        for edge in range(graph.first[node], graph.first[node + 1]):
            target = np.int64(graph.targets[edge])
            if target < found.size and found[target] == component + base:
                cyclic[component] = True
                marks[component] |= graph.entries[edge] >> 32


@loop
def gather(nodes: Words, found: Words, base: int, places: Words, members: Words) -> None:
    """Writes each of `nodes` to the place of its component, which is then the next one; NONE: nowhere."""
    for node in nodes:
        component = found[node] - base
        if places[component] != NONE:
            members[places[component]] = node
            places[component] += 1


class Scratch(NamedTuple):
    """Room for the steps of one state: their rows, their actions, and whether each was taken."""

    rows: NDArray[np.int64]
    actions: NDArray[np.int64]
    taken: NDArray[np.bool_]


def scratch_for(capacity: int, width: int) -> Scratch:
    """Room for `capacity` steps to rows of that width."""
    words = np.empty(capacity * width, np.int64)
    return Scratch(words, np.empty(capacity, np.int64), np.ones(capacity, np.bool_))


@loop
def enabled_units(
    successors: int, rows: int, width: int, nodes: Words, units: Bits, scratch: Scratch, enabled: Bits
) -> bool:
    """Writes the fairness units that each of `nodes` enables into `enabled`.

    `units` has a row of bit words for each action. Returns False if the scratch is too small.
    """
    actions = scratch.actions
    for k in range(nodes.size):
        row = rows + 8 * width * nodes[k]
        count = call_4(successors, row, scratch.rows.ctypes.data, actions.ctypes.data, actions.size)
        if count < 0:
            return False
        for step in range(count):
            for word in range(units.shape[1]):
                enabled[k, word] |= units[actions[step] & 0xFFFFFFFF, word]
    return True


@loop
def entry_between(successors: int, before: Words, after: Words, scratch: Scratch) -> int:
    """The entry of the first step from one row to the other; NONE if there is none, TOO_SMALL if the
    scratch is too small."""
    width = after.size
    rows, actions = scratch.rows.ctypes.data, scratch.actions.ctypes.data
    count = call_4(successors, before.ctypes.data, rows, actions, scratch.actions.size)
    if count < 0:
        return TOO_SMALL
    for step in range(count):
        if scratch.actions[step] >= 0 and same_row(rows + 8 * width * step, after.ctypes.data, width):
            return scratch.actions[step]
    return NONE


@loop
def taken_units(
    graph: Graph, nodes: Words, found: Words, component: int, units: Bits, taken: Words
) -> None:
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


@loop
def _all(taken, count):  # type: ignore[no-untyped-def]
    for step in range(count):
        if not taken[step]:
            return False
    return True


@loop
def name_steps(
    graph: Graph,
    letters: Letters,
    nodes: Words,
    places: Words,
    groups: Words,
    found: Words,
    component: int,
    scratch: Scratch,
    named: Words,
) -> int:
    """Writes the number of the step that each inner edge of the component represents into `named`.

    `nodes` come in groups of one state of the system each; their rows are at `places`. Steps are numbered
    from 0, consecutively for each state. Returns how many there are; NONE if one is on no inner edge, so
    that the component is not closed; TOO_SMALL if the scratch is too small.
    """
    actions, taken = scratch.actions, scratch.taken
    base = count = 0
    bits = np.int64(0)
    for k in range(nodes.size):
        row = letters.rows + 8 * letters.width * places[k]
        if k == 0 or groups[k] != groups[k - 1]:
            if not _all(taken, count):
                return NONE
            base += count
            steps = scratch.rows.ctypes.data
            count = call_4(letters.successors, row, steps, actions.ctypes.data, actions.size)
            if count < 0:
                return TOO_SMALL
            for step in range(count):
                taken[step] = False
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
    return base + count if _all(taken, count) else NONE


def nearest(
    graph: Graph, found: Words, component: int, start: int, goal: NDArray[np.bool_], came: Words
) -> int:
    """Breadth-first inside the component from `start` to the nearest edge with goal[edge].

    Returns that edge, or NONE; came[v] is the edge by which v was reached, NONE for `start`, -2 where a
    node was not reached.
    """
    return _nearest(graph, found, component, start, goal, came, np.empty(came.size, np.int64))


@loop
def _nearest(
    graph: Graph,
    found: Words,
    component: int,
    start: int,
    goal: NDArray[np.bool_],
    came: Words,
    queue: Words,
) -> int:
    queue[0] = start
    came[start] = NONE
    head, tail = 0, 1
    while head < tail:
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
                queue[tail] = target
                tail += 1
    return NONE


@loop
def source_of(graph: Graph, edge: int) -> int:
    """The source of the edge, by bisection."""
    low, high = 0, graph.first.size - 1
    while high - low > 1:
        middle = (low + high) // 2
        if graph.first[middle] <= edge:
            low = middle
        else:
            high = middle
    return low
