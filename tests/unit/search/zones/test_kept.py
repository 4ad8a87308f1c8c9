"""The marks by which zones are looked up: what covers a zone never has a smaller mark."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.unit.search.zones.timed_texts import timed_network
from veristream.kernel.extrapolate import covers
from veristream.kernel.zones import INFINITY, Zone, close, includes
from veristream.search.zones.explore import ZoneExploration
from veristream.search.zones.inquiry import inquire
from veristream.search.zones.kept import FIELD_BITS, FIELDS, GROUP, MARK_MAX, at_least, set_marks
from veristream.search.zones.safety import REACH_FIRST

CLOCKS_MAX = 9
"""Their 18 bounds share 14 fields."""

LARGE = 2000
"""A constant of which a mark has only the upper bits."""


def exploration(clocks: int) -> ZoneExploration:
    """An exploration of zones with that many clocks."""
    declared = " ".join(f"clock x{k}" for k in range(clocks))
    network = timed_network(f"{declared} component P {{ location a initial }} property p: always true")
    return inquire(network, network.properties, REACH_FIRST).explore(64)


EXPLORATIONS = {clocks: exploration(clocks) for clocks in (1, 2, 7, CLOCKS_MAX)}


def marks(zone: Zone, clocks: int, lower: list[int], upper: list[int]) -> list[int]:
    """The words of marks of a zone under the constants L and U."""
    zones = EXPLORATIONS[clocks]
    zones.scratch.lower[1:], zones.scratch.upper[1:] = lower, upper
    set_marks(zones.shape, zones.scratch, zone)
    return [int(word) for word in zones.scratch.marks]


def fields(word: int) -> list[int]:
    """The marks in a word; the bits between them must be free."""
    parts = [word >> FIELD_BITS * k & (1 << FIELD_BITS) - 1 for k in range(FIELDS)]
    assert word >> FIELD_BITS * FIELDS == 0 and max(parts) <= MARK_MAX
    return parts


@st.composite
def zones_about(draw: st.DrawFn, clocks: int, most: int) -> Zone:
    """A zone around a point, with some of the bounds."""
    n = clocks + 1
    at = [0, *draw(st.lists(st.integers(0, most), min_size=clocks, max_size=clocks))]
    slack = draw(st.lists(st.none() | st.integers(0, most), min_size=n * n, max_size=n * n))
    d = np.full(n * n, INFINITY, np.int32)
    for i in range(n):
        for j in range(n):
            more = slack[i * n + j]
            if i == 0 or i == j:
                d[i * n + j] = 1
            if i != j and more is not None:
                d[i * n + j] = min(d[i * n + j], 2 * (at[i] - at[j] + more) + 1)
    assert close(d, n)
    return d


@st.composite
def pairs(draw: st.DrawFn) -> tuple[int, Zone, Zone, list[int], list[int]]:
    """The number of clocks, a zone, a larger one or any other, and L and U."""
    clocks = draw(st.sampled_from(sorted(EXPLORATIONS)))
    most = draw(st.sampled_from([5, 100, LARGE]))
    some = st.lists(st.integers(-1, most), min_size=clocks, max_size=clocks)
    small = draw(zones_about(clocks, most))
    big = draw(zones_about(clocks, most))
    if draw(st.booleans()):
        big = np.maximum(big, small)
        assert close(big, clocks + 1)
    return clocks, big, small, draw(some), draw(some)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(pairs())
def test_a_zone_that_covers_another_has_no_smaller_mark(
    case: tuple[int, Zone, Zone, list[int], list[int]],
) -> None:
    clocks, big, small, lower, upper = case
    n = clocks + 1
    limits: list[NDArray[np.int32]] = [np.array([0, *one], np.int32) for one in (lower, upper)]
    more, less = marks(big, clocks, lower, upper), marks(small, clocks, lower, upper)
    allowed = []
    for k in (0, 1, 2, 3):
        one, other = more[k], less[k if k < GROUP else k + 2]
        allowed.append(at_least(one, other))
        assert allowed[-1] == all(a >= b for a, b in zip(fields(one), fields(other), strict=True))
    if includes(big, small, n) or covers(big, small, n, *limits):
        assert all(allowed)


@pytest.mark.parametrize(("least", "greatest"), [(0, 0), (1, 3), (3, 7), (5, 20)])
def test_the_marks_of_one_clock(least: int, greatest: int) -> None:
    """With U = 3, a lower bound counts up to 3, from `> 3`; with L = 7, an upper bound up to `> 7`."""
    zone = np.array([1, 1 - 2 * least, 2 * greatest + 1, 1], np.int32)
    first, *others = marks(zone, 1, [7], [3])
    assert others == [0] * 5
    assert fields(first)[:2] == [max(0, 7 - 2 * least), min(2 * greatest + 1, 16)]


def test_the_marks_of_a_difference() -> None:
    """x0 in 2..4 and x1 - x0 in 1..3, with U = 5 and L = 9 for both: the difference counts from -5, and a
    covering zone needs at most that by which 9 exceeds the least value of the other clock."""
    d = np.full(9, INFINITY, np.int32)
    for (i, j), bound in {(0, 1): -2, (1, 0): 4, (2, 1): 3, (1, 2): -1}.items():
        d[3 * i + j] = 2 * bound + 1
    d[[0, 4, 8, 2]] = 1
    assert close(d, 3)
    words = marks(d, 2, [9, 9], [5, 5])
    # x1 - x0 <= 3 and x0 - x1 <= -1, in halves of a unit from -5
    assert fields(words[2])[:2] == [7 + 10, -1 + 10]
    # x0 >= 2 and x1 >= 3: 9 - 2 and 9 - 3 are greater than these bounds
    assert fields(words[4])[:2] == [7 + 10, -1 + 10]
    words = marks(d, 2, [4, 4], [5, 5])
    # 4 - 2 is smaller than 3: a covering zone needs `x1 - x0 <= 2` only
    assert fields(words[2])[:2] == [7 + 10, -1 + 10]
    assert fields(words[4])[:2] == [5 + 10, -1 + 10]
