"""Compares extrapolation with its definition: a point of the zone simulates every point that it adds."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.unit.kernel.points import (
    Constraint,
    Described,
    Points,
    Truths,
    closed,
    describe,
    grid,
    holds,
    is_canonical,
    read,
    solve,
    some_zones,
)
from veristream.kernel import zones as dbm
from veristream.kernel.extrapolate import covers, extrapolate_lu

few = settings(max_examples=80, deadline=None, derandomize=True)

FAR = 10**9

Bounds = NDArray[np.int64]
"""A matrix for each point, in parts so fine that a strict bound is one part less (see `points`)."""

Case = tuple[Described, list[int], list[int]]


def constants(values: list[int]) -> NDArray[np.int32]:
    return np.array([0, *values], np.int32)


def lu(zone: Described, lower: list[int], upper: list[int]) -> dbm.Zone:
    """The extrapolated zone."""
    d = closed(zone)
    extrapolate_lu(d, zone.n, constants(lower), constants(upper))
    return d


def maximal(zone: Described, bounds: list[int]) -> dbm.Zone:
    """The zone extrapolated by Extra+_M: one constant for each clock, as both L and U."""
    d = closed(zone)
    extrapolate_lu(d, zone.n, constants(bounds), constants(bounds))
    return d


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A zone of up to three clocks and constants L and U for each clock."""
    m = draw(st.sampled_from([1, 2, 2, 3]))
    some = st.lists(st.integers(-1, 4), min_size=m, max_size=m)
    return draw(some_zones(m)), draw(some), draw(some)


# --- the oracle ---


def simulates(v: int, w: int, lower: int, upper: int) -> bool:
    """Whether the clock value v simulates w: the definition, literally."""
    return (not w < v or w > upper) and (not w > v or v > lower)


def simulating(points: Points, lower: list[int], upper: list[int]) -> Bounds:
    """For each point, the box of the points that simulate it; times are in parts of n * (n + 1)."""
    n = points.shape[1]
    boxes = np.full((len(points), n, n), FAR)
    for x, (low, high) in enumerate(zip(lower, upper, strict=True), start=1):
        w = points[:, x]
        boxes[:, x, 0] = np.where(w <= high * n, w * (n + 1), FAR)
        boxes[:, 0, x] = np.where(w <= low * n, -w * (n + 1), -low * n * (n + 1) - 1)
    return boxes


def region(points: Points, bounds: list[int]) -> Bounds:
    """For each point, the points with the same region: the same whole parts and order of fractions."""
    n = points.shape[1]
    scale = n * (n + 1)
    found = np.full((len(points), n, n), FAR)
    compared = np.array([0, *bounds]) * n >= points
    for i, j in product(range(n), repeat=2):
        difference = points[:, i] - points[:, j]
        strict = difference % n != 0
        bound = -(-difference // n) * scale - strict
        found[:, i, j] = np.where(compared[:, i] & compared[:, j], bound, FAR)
    for x, most in enumerate(bounds, start=1):
        found[:, 0, x] = np.where(compared[:, x], found[:, 0, x], -most * scale - 1)
    return found


def meets(zone: Described, others: Bounds) -> Truths:
    """Which of the others have a point in common with the zone."""
    n = zone.n
    both = others.copy()
    for one in zone.constraints:
        bound = one.constant * n * (n + 1) - one.strict
        both[:, one.i, one.j] = np.minimum(both[:, one.i, one.j], bound)
    for k in range(n):
        both = np.minimum(both, both[:, :, k, None] + both[:, None, k, :])
    return np.asarray((np.diagonal(both, axis1=1, axis2=2) >= 0).all(axis=1))


def added_to(zone: Described, d: dbm.Zone) -> Points:
    """The points of the grid in a matrix and not in the zone."""
    points = grid(zone.m)
    return points[holds(read(d, zone.n), points) & ~holds(zone, points)]


def passes(x: int, lower: int, upper: int) -> list[bool]:
    """Which guards a value in halves passes, now and after each delay of up to five units."""
    found = []
    for value in range(x, x + 11):
        for c in range(lower + 1):
            found += [value >= 2 * c, value > 2 * c]
        for c in range(upper + 1):
            found += [value <= 2 * c, value < 2 * c]
    return found


@pytest.mark.parametrize(("lower", "upper"), [*product(range(-1, 4), repeat=2)])
def test_a_value_simulates_another_iff_it_passes_all_guards_that_the_other_does(
    lower: int, upper: int
) -> None:
    for v, w in product(range(11), repeat=2):
        pairs = zip(passes(v, lower, upper), passes(w, lower, upper), strict=True)
        expected = all(mine or not other for mine, other in pairs)
        assert simulates(v, w, 2 * lower, 2 * upper) == expected


def test_the_box_of_one_clock_is_the_definition() -> None:
    halves = grid(1, 6)
    for low, high in product(range(-1, 4), repeat=2):
        boxes = simulating(halves, [low], [high])
        for v in halves:
            inside = (v[1] * 3 <= boxes[:, 1, 0]) & (-v[1] * 3 <= boxes[:, 0, 1])
            assert inside.tolist() == [simulates(v[1], w[1], 2 * low, 2 * high) for w in halves]


@pytest.mark.parametrize("bounds", [[2, 1], [-1, 2], [0, 0]])
def test_the_region_of_a_point_has_the_points_that_are_equivalent(bounds: list[int]) -> None:
    """Pair by pair on a small grid: whole parts, fractions that are zero, and their order."""
    points = grid(2, 3)
    found = region(points, bounds)
    for k in range(0, len(points), 7):
        zone = found[k]
        differences = (points[:, :, None] - points[:, None, :]) * 4
        inside = (differences <= zone[None]).all(axis=(1, 2))
        assert inside.tolist() == [equivalent(points[k], w, bounds) for w in points]


def equivalent(v: Any, w: Any, bounds: list[int]) -> bool:
    """Region equivalence of two points in thirds, after Alur and Dill."""
    for x, most in enumerate(bounds, start=1):
        if (v[x] > 3 * most) != (w[x] > 3 * most):
            return False
        if v[x] <= 3 * most and (v[x] // 3, v[x] % 3 == 0) != (w[x] // 3, w[x] % 3 == 0):
            return False
    below = [x for x, most in enumerate(bounds, start=1) if v[x] <= 3 * most]
    return all((v[x] % 3 <= v[y] % 3) == (w[x] % 3 <= w[y] % 3) for x in below for y in below)


# --- soundness ---


@few
@given(cases())
@example((describe(2, Constraint(2, 1, 0, True), Constraint(0, 1, -5, False)), [2, 4], [1, 4]))
def test_what_lu_adds_is_simulated(case: Case) -> None:
    zone, lower, upper = case
    d = lu(zone, lower, upper)
    assert is_canonical(d, zone.n)
    assert dbm.includes(d, closed(zone), zone.n)
    assert meets(zone, simulating(added_to(zone, d), lower, upper)).all()


@few
@given(cases())
def test_what_m_adds_is_equivalent(case: Case) -> None:
    zone, bounds, _ = case
    d = maximal(zone, bounds)
    assert is_canonical(d, zone.n)
    assert dbm.includes(d, closed(zone), zone.n)
    assert meets(zone, region(added_to(zone, d), bounds)).all()
    assert meets(zone, simulating(added_to(zone, d), bounds, bounds)).all()


# --- how much is forgotten ---


def test_beyond_its_constants_a_zone_forgets_its_differences() -> None:
    """x and y equal and at least 5, both compared with 2 only: all that is left is x, y > 2."""
    equal = [Constraint(1, 2, 0, False), Constraint(2, 1, 0, False)]
    zone = describe(2, *equal, Constraint(0, 1, -5, False))
    left = closed(describe(2, Constraint(0, 1, -2, True), Constraint(0, 2, -2, True)))
    assert np.array_equal(maximal(zone, [2, 2]), left)
    assert np.array_equal(maximal(zone, [5, 5]), closed(zone))


def test_lower_and_upper_constants_differ() -> None:
    """x = 5: with L = 2 its upper bound goes, with U = 2 its lower bound shrinks."""
    zone = describe(1, Constraint(1, 0, 5, False), Constraint(0, 1, -5, False))
    assert lu(zone, [2], [9]).tolist() == closed(describe(1, Constraint(0, 1, -5, False))).tolist()
    shrunk = describe(1, Constraint(1, 0, 5, False), Constraint(0, 1, -2, True))
    assert lu(zone, [9], [2]).tolist() == closed(shrunk).tolist()
    assert lu(zone, [5], [5]).tolist() == closed(zone).tolist()
    assert lu(zone, [4], [4]).tolist() == closed(describe(1, Constraint(0, 1, -4, True))).tolist()


def test_the_differences_of_a_clock_above_its_lower_constant_go() -> None:
    """x >= 5 and y >= x - 1: with L(x) = 2 the difference goes, though its constant is below 2."""
    zone = describe(2, Constraint(0, 1, -5, False), Constraint(1, 2, 1, False))
    left = closed(describe(2, Constraint(0, 1, -5, False), Constraint(0, 2, -4, False)))
    assert np.array_equal(lu(zone, [2, 9], [9, 9]), left)
    assert np.array_equal(lu(zone, [5, 9], [9, 9]), closed(zone))


def defined(zone: Described, lower: list[int], upper: list[int]) -> dbm.Zone:
    """Extra+_LU as the paper defines it, case by case; what is left is closed."""
    low, high = [0, *lower], [0, *upper]
    least = dict.fromkeys(range(zone.n), 0)
    tight = read(closed(zone), zone.n).constraints
    least |= {one.j: -one.constant for one in tight if one.i == 0}
    kept = []
    for one in tight:
        if one.constant > low[one.i] or least[one.i] > low[one.i]:
            continue
        if least[one.j] <= high[one.j]:
            kept.append(one)
        elif one.i == 0 and high[one.j] >= 0:
            kept.append(Constraint(0, one.j, -high[one.j], True))
    return closed(describe(zone.m, *kept))


@few
@given(cases())
def test_lu_is_as_the_paper_defines_it(case: Case) -> None:
    assert np.array_equal(lu(*case), defined(*case))


@few
@given(cases())
def test_a_clock_that_is_never_compared_is_free(case: Case) -> None:
    zone, lower, upper = case
    lower[0] = upper[0] = -1
    d = lu(zone, lower, upper)
    freed = d.copy()
    dbm.free(freed, zone.n, 1)
    assert np.array_equal(d, freed)


@few
@given(cases())
def test_the_extrapolations_are_ordered(case: Case) -> None:
    """Smaller constants forget more, extrapolation is idempotent, and M is LU with equal constants."""
    zone, lower, upper = case
    d = lu(zone, lower, upper)
    again = d.copy()
    extrapolate_lu(again, zone.n, constants(lower), constants(upper))
    assert np.array_equal(again, d)
    greatest = [max(pair) for pair in zip(lower, upper, strict=True)]
    assert dbm.includes(d, maximal(zone, greatest), zone.n)
    assert np.array_equal(maximal(zone, lower), lu(zone, lower, lower))


@few
@given(st.lists(st.integers(-1, 3), min_size=6, max_size=6), st.data())
def test_extrapolated_zones_are_finitely_many(values: list[int], data: st.DataObject) -> None:
    """The constants of an extrapolated zone are within fixed limits, however large they were before."""
    lower, upper = values[:3], values[3:]
    point = data.draw(st.lists(st.integers(0, 10**6), min_size=3, max_size=3))
    slack = data.draw(st.lists(st.integers(0, 10**6) | st.just(0), min_size=12, max_size=12))
    at = [0, *point]
    pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
    zone = describe(
        3, *(Constraint(i, j, at[i] - at[j] + s, False) for (i, j), s in zip(pairs, slack, strict=True))
    )
    assert solve(zone) is not None
    finite = [one.constant for one in read(lu(zone, lower, upper), 4).constraints]
    assert min(finite) >= -max(0, *upper)
    assert max(finite) <= 3 * max(0, *lower)


# --- covering ---


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Described, Described, list[int], list[int]]:
    """Two zones of up to two clocks and constants L and U for each clock."""
    m = draw(st.sampled_from([1, 2, 2, 2]))
    some = st.lists(st.integers(-1, 4), min_size=m, max_size=m)
    return draw(some_zones(m)), draw(some_zones(m)), draw(some), draw(some)


def covered(big: Described, small: Described, lower: list[int], upper: list[int]) -> bool:
    """Whether each point of the small zone is simulated by a point of the big one, point by point."""
    points = grid(small.m)
    inside = points[holds(small, points)]
    return bool(meets(big, simulating(inside, lower, upper)).all())


@settings(few, max_examples=300)
@given(pairs())
@example((describe(1), describe(1, Constraint(0, 1, -3, True)), [-1], [-1]))
@example((describe(2, Constraint(1, 2, 0, False)), describe(2), [1, 2], [2, 1]))
def test_covering_is_simulation_point_by_point(
    case: tuple[Described, Described, list[int], list[int]],
) -> None:
    big, small, lower, upper = case
    found = covers(closed(big), closed(small), big.n, constants(lower), constants(upper))
    assert found == covered(big, small, lower, upper)


def test_covering_forgets_more_than_extrapolation() -> None:
    """y is ahead of x by at most 1, or by at most 2 once x is at least 3. If y is compared from below with
    3 only, x = 3 and y = 4 do all that x = 3 and y = 5 do."""
    near = describe(2, Constraint(2, 1, 1, False), Constraint(1, 2, 0, False))
    far = describe(2, Constraint(2, 1, 2, False), Constraint(1, 2, 0, False), Constraint(0, 1, -3, False))
    assert not dbm.includes(lu(near, [9, 3], [9, 9]), lu(far, [9, 3], [9, 9]), 3)
    assert covers(closed(near), closed(far), 3, constants([9, 3]), constants([9, 9]))
    assert not covers(closed(near), closed(far), 3, constants([9, 5]), constants([9, 9]))
