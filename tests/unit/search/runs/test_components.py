"""Components of parts of random graphs, against mutual reachability; and when cycles are looked for."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veristream.search import threads
from veristream.search.reach.expand import Code
from veristream.search.reach.explore import Plan, begin
from veristream.search.runs.explored import next_look
from veristream.search.runs.fairness import System, Units, _members, _part, find_fair
from veristream.search.runs.graph import ABSENT, Graph, components, summarise

NODES = 9
arrows = st.lists(st.tuples(*3 * [st.integers(0, NODES - 1)]), max_size=30)
"""Edges: source, target, and which of marks is on it."""


def graph_of(edges: list[tuple[int, int, int]]) -> Graph:
    """The last node is found, but not expanded: it is a target without edges of its own."""
    kept = sorted(edge for edge in edges if edge[0] < NODES - 1)
    first = np.searchsorted([source for source, _, _ in kept], np.arange(NODES)).astype(np.int64)
    targets = np.array([target for _, target, _ in kept], np.uint32)
    entries = np.array([1 << (32 + mark) for _, _, mark in kept], np.int64)
    return Graph(first, targets, entries)


def reaches(graph: Graph, nodes: list[int]) -> set[tuple[int, int]]:
    """Which of the nodes reach which, by one edge or more, without leaving them."""
    steps = {
        (node, int(target))
        for node in nodes
        for target in graph.targets[graph.first[node] : graph.first[node + 1]]
        if int(target) in nodes
    }
    while True:
        more = steps | {(a, d) for a, b in steps for c, d in steps if b == c}
        if more == steps:
            return steps
        steps = more


@settings(deadline=None, max_examples=150, derandomize=True)
@given(arrows, st.sets(st.integers(0, NODES - 2)), st.sampled_from([1, 2, 3]))
def test_random_parts(edges: list[tuple[int, int, int]], some: set[int], workers: int) -> None:
    graph, nodes = graph_of(edges), np.array(sorted(some), np.int64)
    numbers = np.full(NODES - 1, ABSENT, np.uint32)
    with mock.patch.object(threads, "LEAST", 1):
        inside, count = components(_part(graph, nodes, numbers, workers))
        found = np.full(NODES - 1, -1, np.int64)
        found[nodes] = inside + 5
        summary = summarise(graph, nodes, found, 5, count, workers)
    assert (numbers == ABSENT).all()
    paths = reaches(graph, sorted(some))
    for a, one in zip(nodes, inside, strict=True):
        for b, other in zip(nodes, inside, strict=True):
            assert (one == other) == (a == b or {(a, b), (b, a)} <= paths)
    chosen = np.arange(count)
    members = _members(nodes, found, 5, np.bincount(inside, minlength=1), chosen)
    for component, part in zip(chosen, members, strict=True):
        assert part.tolist() == nodes[inside == component].tolist()
        assert summary.least[component] == part[0]
        assert summary.cyclic[component] == ((part[0], part[0]) in paths)
        marks = 0
        for node in part:
            for edge in range(graph.first[node], graph.first[node + 1]):
                if int(graph.targets[edge]) in part:
                    marks |= int(graph.entries[edge]) >> 32
        assert summary.marks[component] == marks


@settings(deadline=None, max_examples=50, derandomize=True)
@given(arrows)
def test_an_accepting_component_is_found_by_any_number_of_workers(
    edges: list[tuple[int, int, int]],
) -> None:
    no_units = Units(*(np.zeros(shape, np.int64) for shape in ((1, 1), 1, 1)))
    with mock.patch.object(threads, "LEAST", 1):
        found = [
            find_fair(graph_of(edges), 3, no_units, System(0, 0, 0, workers=workers))
            for workers in (1, 2, 3)
        ]
    assert len({None if one is None else tuple(one.nodes) for one in found}) == 1


@pytest.mark.parametrize(("workers", "growth"), [(1, 2), (2, 3), (3, 4), (64, 4)])
def test_workers_explore_more_between_two_looks(workers: int, growth: int) -> None:
    exploration = begin(Code(0, 0, 0, 0), np.zeros(1, np.uint64), Plan(), memory_max_mib=64)
    exploration.own *= workers
    assert next_look(1000, exploration) == growth * 1000


def test_other_explorations_look_whenever_they_have_doubled() -> None:
    assert next_look(1000, object()) == 2000
