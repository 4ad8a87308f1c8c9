"""Differences of zones: the pieces are disjoint and contain exactly the remaining points."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given, settings

from tests.unit.kernel.points import (
    Constraint,
    Described,
    closed,
    describe,
    grid,
    holds,
    is_canonical,
    matrix,
    read,
    solve,
    tuples,
)
from veristream.kernel import zones as dbm
from veristream.kernel.federation import NO_ROOM, Federation, subtract, subtract_all

few = settings(max_examples=60, deadline=None, derandomize=True)


def room(n: int, rows: int) -> Federation:
    """Returns uninitialised rows."""
    return np.full((rows, n * n), 99, np.int32)


def check_pieces(pieces: Federation, zone: Described, others: list[Described]) -> None:
    """Asserts that the pieces are canonical, disjoint, and together the zone without the others."""
    points = grid(zone.m)
    expected = holds(zone, points)
    for other in others:
        expected &= ~holds(other, points)
    found = [read(piece, zone.n) for piece in pieces]
    assert all(is_canonical(piece, zone.n) and solve(read(piece, zone.n)) for piece in pieces)
    for one, two in combinations(found, 2):
        assert solve(one.but(*two.constraints)) is None
    for one in found:  # exact for any number of clocks: within the zone and apart from the others
        assert all(solve(one.but(cut.negation)) is None for cut in zone.constraints)
        assert all(solve(one.but(*other.constraints)) is None for other in others)
    union = np.zeros(len(points), bool)
    for one in found:
        union |= holds(one, points)
    assert np.array_equal(union, expected)


@few
@given(tuples(4, 2))
def test_subtract(zones: tuple[Described, ...]) -> None:
    zone, other = zones
    n = zone.n
    d, out = closed(zone), room(n, n * n)
    count = subtract(d, closed(other), n, out)
    assert np.array_equal(d, closed(zone))
    assert count <= n * n - n
    assert (out[count:] == 99).all()
    check_pieces(out[:count], zone, [other])


@few
@given(tuples(3, 3))
def test_subtract_from_pieces(zones: tuple[Described, ...]) -> None:
    zone, first, second = zones
    n = zone.n
    pieces, out = room(n, n * n), room(n, n**4)
    count = subtract(closed(zone), closed(first), n, pieces)
    left = subtract_all(pieces, count, closed(second), n, out, np.empty(n * n, np.int32))
    check_pieces(out[:left], zone, [first, second])
    exact = room(n, left)
    assert subtract_all(pieces, count, closed(second), n, exact, np.empty(n * n, np.int32)) == left
    assert np.array_equal(exact, out[:left])
    if left > 0:
        assert (
            subtract_all(pieces, count, closed(second), n, room(n, left - 1), np.empty(n * n, np.int32))
            == NO_ROOM
        )


@few
@given(tuples(4))
def test_a_zone_without_itself_or_nothing(zones: tuple[Described]) -> None:
    (zone,) = zones
    n, d = zone.n, closed(zone)
    nothing, out = matrix(describe(zone.m)), room(n, n * n)
    dbm.constrain(nothing, n, 1, 0, dbm.below(0))
    assert subtract(d, d, n, out) == 0
    assert subtract(d, nothing, n, out) == 1 and np.array_equal(out[0], d)
    assert subtract(nothing, d, n, out) == 0


def test_a_disjoint_zone_does_not_split() -> None:
    """A unit square and another one, apart from it in two directions: one piece, not two."""
    square = [Constraint(1, 0, 1, False), Constraint(2, 0, 1, False)]
    apart = [Constraint(0, 1, -2, False), Constraint(0, 2, -2, False)]
    out = room(3, 9)
    d = closed(describe(2, *square))
    assert subtract(d, closed(describe(2, *apart)), 3, out) == 1
    assert np.array_equal(out[0], d)


def test_a_corner_is_cut_into_two() -> None:
    """x, y <= 2 without x, y <= 1: x > 1 remains, and y > 1 with x <= 1."""
    big = describe(2, Constraint(1, 0, 2, False), Constraint(2, 0, 2, False))
    small = describe(2, Constraint(1, 0, 1, False), Constraint(2, 0, 1, False))
    out = room(3, 9)
    assert subtract(closed(big), closed(small), 3, out) == 2
    assert np.array_equal(out[0], closed(big.but(Constraint(0, 1, -1, True))))
    assert np.array_equal(out[1], closed(big.but(Constraint(1, 0, 1, False), Constraint(0, 2, -1, True))))


def test_no_clocks() -> None:
    point, out = np.array([dbm.LE_ZERO], np.int32), room(1, 1)
    assert subtract(point, point, 1, out) == 0
    assert subtract(point, np.array([dbm.EMPTY], np.int32), 1, out) == 1
