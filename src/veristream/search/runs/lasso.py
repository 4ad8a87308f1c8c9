"""Lassos, runs of a stem and a loop: built from a fair component, and checked against the formula."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from veristream.ir.expr import Const
from veristream.ir.property import Formula, Holds, Occurs, Silent, TemporalBinary, TemporalUnary
from veristream.search.runs.fairness import FairComponent, Units
from veristream.search.runs.graph import NONE, Graph, nearest, source_of

EdgeSet = NDArray[np.bool_]

STEPS_SHOWN = 256
"""A loop that must take every single step takes all of them only if there are at most this many."""


def loop_edges(graph: Graph, fair: FairComponent, marks: int, units: Units, start: int) -> list[int]:
    """The edges of a cycle from `start` that meets every acceptance mark and every fairness requirement."""
    path: list[int] = []
    here = start
    entries, targets = graph.entries, graph.targets
    for mark in (1 << bit for bit in range(marks.bit_length())):
        if not any(entries[edge] >> 32 & mark for edge in path):
            path += _walk(graph, fair, here, (entries >> 32 & mark) != 0)
            here = int(targets[path[-1]])
    for goal in _debts(graph, fair, units):
        if not any(goal[edge] for edge in path):
            path += _walk(graph, fair, here, goal)
            here = int(targets[path[-1]])
    if fair.step_of is not None and fair.step_count <= STEPS_SHOWN:
        path += _take_all(graph, fair, fair.step_of, (path, here))
        here = int(targets[path[-1]]) if path else start
    if not path or here != start:
        path += _walk(graph, fair, here, targets == start)
    return path


def _take_all(
    graph: Graph, fair: FairComponent, step_of: NDArray[np.int64], before: tuple[list[int], int]
) -> list[int]:
    """The edges of a walk that, together with the path before it, takes every step of the component."""
    path, here = before
    owed = np.ones(fair.step_count + 1, np.bool_)  # the last one is for NONE, which is not required
    owed[[*step_of[path], NONE]] = False
    added: list[int] = []
    while owed.any():
        way = _walk(graph, fair, here, owed[step_of])
        owed[step_of[way]] = False
        added += way
        here = int(graph.targets[way[-1]])
    return added


def _walk(graph: Graph, fair: FairComponent, start: int, goal: EdgeSet) -> list[int]:
    """The edges from `start` to the nearest goal edge, including that edge."""
    came = np.full(graph.first.size - 1, -2, np.int64)
    edge = int(nearest(graph, fair.found, fair.component, start, goal, came))
    assert edge != NONE, "a component reaches all its own edges"
    path = [edge]
    node = int(source_of(graph, edge))
    while came[node] != NONE:
        path.append(int(came[node]))
        node = int(source_of(graph, came[node]))
    return path[::-1]


def _debts(graph: Graph, fair: FairComponent, units: Units) -> Iterator[EdgeSet]:
    """For each unit that the loop must take: the edges that take it."""
    if not units.exist:
        return
    actions = np.minimum(graph.entries & 0xFFFFFFFF, units.of_action.shape[0] - 1)
    is_step = (graph.entries & 0xFFFFFFFF) < units.of_action.shape[0]
    somewhere = np.bitwise_or.reduce(fair.enabled, axis=0)
    for word in range(units.weak.size):
        for bit in range(63):
            unit = np.int64(1 << bit)
            owed = (units.weak | units.strong)[word] & unit & somewhere[word]
            if not owed:
                continue
            pays = is_step & (units.of_action[actions, word] & unit != 0)
            if not fair.taken[word] & unit:
                # Only a weak unit may remain untaken, and then some node does not enable it.
                disabled = np.zeros(graph.first.size - 1, np.bool_)
                disabled[fair.nodes[fair.enabled[:, word] & unit == 0]] = True
                known = graph.targets < disabled.size
                pays = known & disabled[np.minimum(graph.targets, disabled.size - 1)]
            yield pays


def satisfies(formula: Formula, letters: Sequence[frozenset[Holds | Occurs | Silent]], loop: int) -> bool:
    """Whether the run letters[0], letters[1], ... that returns to `loop` satisfies the formula.

    A direct evaluation, position by position, which confirms what the automaton found.
    """
    return _positions(formula, letters, loop)[0]


def _positions(
    formula: Formula, letters: Sequence[frozenset[Holds | Occurs | Silent]], loop: int
) -> list[bool]:
    size = len(letters)
    after = [*range(1, size), loop]
    match formula:
        case Holds(condition=Const(value=value)):  # a constant is in no letter
            return [value != 0] * size
        case Holds() | Occurs() | Silent():
            return [formula in letter for letter in letters]
        case TemporalUnary(op=op, operand=operand):
            inner = _positions(operand, letters, loop)
            match op:
                case "!":
                    return [not value for value in inner]
                case "X":
                    return [inner[after[i]] for i in range(size)]
                case "<>":
                    return _until([True] * size, inner, after)
                case "[]":
                    return [not v for v in _until([True] * size, [not v for v in inner], after)]
        case TemporalBinary(op=op, left=left, right=right):
            a, b = _positions(left, letters, loop), _positions(right, letters, loop)
            pairs = list(zip(a, b, strict=True))
            match op:
                case "&&":
                    return [x and y for x, y in pairs]
                case "||":
                    return [x or y for x, y in pairs]
                case "->":
                    return [not x or y for x, y in pairs]
                case "<->":
                    return [x == y for x, y in pairs]
                case "U":
                    return _until(a, b, after)
                case "R":
                    return [not v for v in _until([not v for v in a], [not v for v in b], after)]


def _until(left: list[bool], right: list[bool], after: list[int]) -> list[bool]:
    """The least fixed point of: right, or left and the same at the next position."""

    def step(value: list[bool], _: int) -> list[bool]:
        return [right[i] or (left[i] and value[after[i]]) for i in range(len(value))]

    return reduce(step, range(len(left) + 1), [False] * len(left))
