"""Compares zones with points: every operation yields exactly the points of its definition."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.unit.kernel.points import (
    CONSTANT_MAX,
    Constraint,
    Described,
    Points,
    Truths,
    any_zones,
    closed,
    constraints,
    describe,
    grid,
    holds,
    intersects,
    is_canonical,
    line_meets,
    matrix,
    read,
    same,
    satisfies,
    solve,
    tuples,
)
from veristream.kernel import zones as dbm

few = settings(max_examples=60, deadline=None, derandomize=True)


def agrees(d: dbm.Zone, zone: Described, points: Points, expected: Truths) -> bool:
    """Whether a matrix is canonical and contains exactly the expected points."""
    return is_canonical(d, zone.n) and np.array_equal(holds(read(d, zone.n), points), expected)


# --- bounds ---


@pytest.mark.parametrize(
    ("left", "right", "total"),
    [
        (dbm.at_most(2), dbm.at_most(3), dbm.at_most(5)),
        (dbm.at_most(2), dbm.below(3), dbm.below(5)),
        (dbm.below(-2), dbm.at_most(-3), dbm.below(-5)),
        (dbm.below(2), dbm.below(-3), dbm.below(-1)),
        (dbm.at_most(-4), dbm.at_most(1), dbm.at_most(-3)),
        (dbm.INFINITY, dbm.at_most(-4), dbm.INFINITY),
        (dbm.below(7), dbm.INFINITY, dbm.INFINITY),
        (dbm.INFINITY, dbm.INFINITY, dbm.INFINITY),
    ],
)
def test_bounds_add(left: int, right: int, total: int) -> None:
    assert dbm.add(left, right) == total


def test_bounds_are_ordered_by_tightness() -> None:
    ordered = [dbm.below(-1), dbm.at_most(-1), dbm.below(0), dbm.LE_ZERO, dbm.below(1), dbm.at_most(1)]
    assert ordered == [-2, -1, 0, 1, 2, 3]
    assert 2 * dbm.INFINITY < 2**31


@pytest.mark.parametrize(("constant", "strict"), [*product([-3, 0, 2], [False, True])])
def test_the_complement_holds_where_the_bound_does_not(constant: int, strict: bool) -> None:
    one = Constraint(1, 0, constant, strict)
    bound = dbm.complement(one.bound)
    other = Constraint(0, 1, bound >> 1, bound & 1 == 0)
    halves = np.array([[0, x] for x in range(-10, 11)])
    left, right = (holds(Described(1, (c,)), halves, unit=2) for c in (one, other))
    assert np.array_equal(left, ~right)


# --- the least point ---


@few
@given(any_zones(clocks_max=3))
def test_a_zone_has_a_point_iff_it_has_one_on_the_grid(zone: Described) -> None:
    assert (solve(zone) is not None) == holds(zone, grid(zone.m)).any()


# --- making zones ---


@pytest.mark.parametrize("n", [1, 2, 4])
def test_zero_is_one_point_and_the_universe_is_all(n: int) -> None:
    d = np.full(n * n, 99, np.int32)
    dbm.set_zero(d, n)
    assert d.tolist() == [dbm.LE_ZERO] * (n * n)
    dbm.set_universe(d, n)
    assert np.array_equal(d, matrix(describe(n - 1)))
    assert is_canonical(d, n)


def test_a_copy_is_the_same_and_its_own() -> None:
    source, target = np.arange(9, dtype=np.int32), np.zeros(9, np.int32)
    dbm.copy(source, target, 3)
    source[0] = 7
    assert target.tolist() == list(range(9))


@few
@given(any_zones())
def test_closing_keeps_the_points_and_finds_the_empty(zone: Described) -> None:
    d = matrix(zone)
    filled = dbm.close(d, zone.n)
    assert filled == (solve(zone) is not None)
    assert dbm.is_empty(d) == (not filled)
    if filled:
        assert agrees(d, zone, grid(zone.m), holds(zone, grid(zone.m)))


@few
@given(tuples(2))
def test_closed_bounds_are_attained_or_approached(zones: tuple[Described]) -> None:
    """A bound that is one step tighter would lose points; without a bound, any bound would."""
    (zone,) = zones
    d, n = closed(zone), zone.n
    points = grid(zone.m)[holds(zone, grid(zone.m))]
    far = zone.m * CONSTANT_MAX[zone.m] + 1
    for i, j in product(range(n), repeat=2):
        bound = int(d[i * n + j]) - 1 if d[i * n + j] != dbm.INFINITY else dbm.at_most(far)
        tighter = Constraint(i, j, bound >> 1, bound & 1 == 0)
        assert not holds(zone.but(tighter), points).all()


def test_many_constraints_around_a_negative_cycle_do_not_overflow() -> None:
    n = 40
    d = np.full(n * n, dbm.at_most(-(2**24)), np.int32)
    d[:: n + 1] = dbm.LE_ZERO
    assert not dbm.close(d, n)
    assert dbm.is_empty(d)
    assert d.min() >= -(2**28)


# --- asking ---


@few
@given(tuples(4), st.data())
def test_satisfies_and_implies(zones: tuple[Described], data: st.DataObject) -> None:
    (zone,) = zones
    one = data.draw(constraints(zone.m))
    d = closed(zone)
    some = satisfies(d, zone.n, one.i, one.j, one.bound)
    everywhere = dbm.implies(d, zone.n, one.i, one.j, one.bound)
    assert some == (solve(zone.but(one)) is not None)
    assert everywhere == (solve(zone.but(one.negation)) is None)


def is_subset(small: Described, big: Described) -> bool:
    return all(solve(small.but(one.negation)) is None for one in big.constraints)


@few
@given(tuples(4, 3))
def test_inclusion_of_matrices_is_inclusion_of_points(zones: tuple[Described, ...]) -> None:
    a, b, c = zones
    pairs = [(a, b), (b, a), (a, c), (a.but(*b.constraints), a), (a, a.but(*b.constraints)), (a, a)]
    for small, big in pairs:
        left, right = matrix(small), matrix(big)
        dbm.close(left, a.n)
        dbm.close(right, a.n)
        within = solve(small) is None or (solve(big) is not None and is_subset(small, big))
        without = solve(big) is None or (solve(small) is not None and is_subset(big, small))
        assert dbm.includes(right, left, a.n) == within
        assert same(left, right, a.n) == (within and without)


@few
@given(tuples(4, 2))
def test_intersection(zones: tuple[Described, ...]) -> None:
    a, b = zones
    both = a.but(*b.constraints)
    d, other = closed(a), closed(b)
    common = solve(both) is not None
    assert intersects(d, other, a.n) == common
    assert np.array_equal(d, closed(a))
    assert dbm.intersect(d, other, a.n) == common
    assert dbm.is_empty(d) == (not common)
    assert np.array_equal(other, closed(b))
    if common:
        assert agrees(d, a, grid(a.m), holds(both, grid(a.m)))


def test_zones_can_be_apart_without_one_difference_that_is() -> None:
    """One has y >= x + 1 and z <= 1, the other x >= 1 and z >= y: together 2 <= y <= z <= 1."""
    one = closed(describe(3, Constraint(1, 2, -1, False), Constraint(3, 0, 1, False)))
    other = closed(describe(3, Constraint(0, 1, -1, False), Constraint(2, 3, 0, False)))
    for cut in read(other, 4).constraints:
        assert satisfies(one, 4, cut.i, cut.j, cut.bound)
    assert not intersects(one, other, 4)
    assert not dbm.intersect(one, other, 4)


@few
@given(tuples(4))
def test_is_unbounded(zones: tuple[Described]) -> None:
    (zone,) = zones
    far = zone.m * CONSTANT_MAX[zone.m] + 1
    beyond = [solve(zone.but(Constraint(0, k, -far, False))) for k in range(1, zone.n)]
    assert dbm.is_unbounded(closed(zone), zone.n) == (None not in beyond)


# --- cutting ---


@few
@given(tuples(4), st.data())
def test_constrain(zones: tuple[Described], data: st.DataObject) -> None:
    (zone,) = zones
    one = data.draw(constraints(zone.m))
    d, cut = closed(zone), zone.but(one)
    filled = dbm.constrain(d, zone.n, one.i, one.j, one.bound)
    assert filled == (solve(cut) is not None)
    assert dbm.is_empty(d) == (not filled)
    if filled:
        assert agrees(d, zone, grid(zone.m), holds(cut, grid(zone.m)))


# --- moving ---


@few
@given(tuples(4))
def test_up_and_down(zones: tuple[Described]) -> None:
    (zone,) = zones
    points, ones = grid(zone.m), [1] * zone.m
    later, earlier = closed(zone), closed(zone)
    dbm.up(later, zone.n)
    dbm.down(earlier, zone.n)
    assert agrees(later, zone, points, line_meets(zone, points, [0, *[-1] * zone.m], back=False))
    assert agrees(earlier, zone, points, line_meets(zone, points, [0, *ones], back=False))


@few
@given(tuples(4), st.data())
def test_reset_and_free(zones: tuple[Described], data: st.DataObject) -> None:
    (zone,) = zones
    clock = data.draw(st.integers(1, zone.m))
    value = data.draw(st.integers(0, 4))
    points = grid(zone.m)
    somewhere = line_meets(zone, points, [int(k == clock) for k in range(zone.n)], back=True)
    freed, put = closed(zone), closed(zone)
    dbm.free(freed, zone.n, clock)
    dbm.reset(put, zone.n, clock, value)
    assert agrees(freed, zone, points, somewhere)
    assert agrees(put, zone, points, somewhere & (points[:, clock] == value * zone.n))


@few
@given(tuples(4))
def test_relaxed_bounds_add_what_a_moment_of_time_separates(zones: tuple[Described]) -> None:
    """A moment is half a step of the grid: no constraint changes its truth within less."""
    (zone,) = zones
    points = grid(zone.m)
    moment = np.array([0] + [1] * zone.m)
    inside = holds(zone, points)
    before = holds(zone, 2 * points - moment, unit=2 * zone.n)
    after = holds(zone, 2 * points + moment, unit=2 * zone.n)
    upper, lower = closed(zone), closed(zone)
    dbm.relax_upper(upper, zone.n)
    dbm.relax_lower(lower, zone.n)
    assert agrees(upper, zone, points, inside | before)
    assert agrees(lower, zone, points, inside | after)


def test_an_upper_bound_that_a_difference_makes_strict_stays_strict() -> None:
    """x < y and y <= 2: x < 2 stays; but y < 2 alone is relaxed."""
    tied = closed(describe(2, Constraint(1, 2, 0, True), Constraint(2, 0, 2, False)))
    dbm.relax_upper(tied, 3)
    assert (tied[3], tied[6]) == (dbm.below(2), dbm.at_most(2))
    loose = closed(describe(2, Constraint(1, 2, 0, False), Constraint(2, 0, 2, True)))
    dbm.relax_upper(loose, 3)
    assert (loose[3], loose[6]) == (dbm.at_most(2), dbm.at_most(2))


# --- edges ---


def test_no_clocks() -> None:
    d = np.zeros(1, np.int32)
    dbm.set_universe(d, 1)
    dbm.up(d, 1)
    dbm.down(d, 1)
    dbm.relax_upper(d, 1)
    dbm.relax_lower(d, 1)
    assert d.tolist() == [dbm.LE_ZERO]
    assert dbm.is_unbounded(d, 1) and dbm.close(d, 1) and intersects(d, d, 1)
    assert dbm.constrain(d, 1, 0, 0, dbm.at_most(3))
    assert not satisfies(d, 1, 0, 0, dbm.below(0))
    assert not dbm.constrain(d, 1, 0, 0, dbm.below(0))
    assert dbm.is_empty(d)


@few
@given(any_zones())
def test_an_empty_zone_is_within_all_and_meets_none(zone: Described) -> None:
    d, full = matrix(zone), matrix(describe(zone.m))
    assume(not dbm.close(d, zone.n))
    nothing = matrix(describe(zone.m))
    assert not dbm.constrain(nothing, zone.n, 1, 0, dbm.below(0))
    assert dbm.includes(full, d, zone.n) and dbm.includes(nothing, d, zone.n)
    assert not dbm.includes(d, full, zone.n)
    assert same(d, nothing, zone.n) and not same(d, full, zone.n)
    assert not same(full, d, zone.n)
    assert not intersects(d, full, zone.n) and not intersects(full, d, zone.n)
