"""Zones as plain constraints and sets of points, an oracle for the native zones.

Which grid of points is exact? Take integer constraints over m clocks that have a solution. Read `x < c`
as `x <= c - 1/(m+1)`; a cycle of constraints has at most m+1 of them and, if strict, a sum of at least
1, so no cycle becomes negative and the least solution of the new constraints exists. Its values are
sums along paths of at most m constraints: multiples of 1/(m+1), at most m*C + 1 for constants up to C.
So integer constraints have a solution iff they have one on the grid of 1/(m+1), up to m*C + 1; and two
zones are equal iff they agree there, with C for the constants of one zone and of the other's
complement. `solve` finds that least solution; `grid` gives all points of the grid up to some height,
which is enough to be exact for one and two clocks. For three and four a difference that the points show
is always a true one, but some might not be seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from veristream.kernel import zones as dbm

Points = NDArray[np.int64]
"""A row for each point: 0, then its clocks' values in units of 1/(m+1)."""

Truths = NDArray[np.bool_]

CONSTANT_MAX = {1: 6, 2: 6, 3: 3, 4: 2}
HEIGHT = {1: 31, 2: 31, 3: 10, 4: 4}


@dataclass(frozen=True, slots=True)
class Constraint:
    """x_i - x_j < constant, or <=."""

    i: int
    j: int
    constant: int
    strict: bool

    @property
    def bound(self) -> int:
        return 2 * self.constant + (0 if self.strict else 1)

    @property
    def negation(self) -> Constraint:
        return Constraint(self.j, self.i, -self.constant, not self.strict)


@dataclass(frozen=True, slots=True)
class Described:
    """A zone of m clocks as constraints, which include that no clock is negative."""

    m: int
    constraints: tuple[Constraint, ...]

    @property
    def n(self) -> int:
        return self.m + 1

    def but(self, *more: Constraint) -> Described:
        return Described(self.m, self.constraints + more)


# --- from and to matrices ---


def describe(m: int, *constraints: Constraint) -> Described:
    """A zone with these constraints."""
    return Described(m, tuple(Constraint(0, k, 0, False) for k in range(1, m + 1)) + constraints)


def matrix(zone: Described) -> dbm.Zone:
    """The constraints as a matrix, not closed."""
    d = np.full((zone.n, zone.n), dbm.INFINITY, np.int32)
    np.fill_diagonal(d, dbm.LE_ZERO)
    for one in zone.constraints:
        d[one.i, one.j] = min(d[one.i, one.j], one.bound)
    return d.reshape(-1)


def closed(zone: Described) -> dbm.Zone:
    """Returns the canonical matrix of a non-empty zone."""
    d = matrix(zone)
    assert dbm.close(d, zone.n)
    return d


def read(d: dbm.Zone, n: int) -> Described:
    """Returns the constraints of a matrix; from the diagonal only those that exclude something."""
    entries = [(k // n, k % n, int(bound)) for k, bound in enumerate(d)]
    return Described(
        n - 1,
        tuple(
            Constraint(i, j, bound >> 1, bound & 1 == 0)
            for i, j, bound in entries
            if bound != dbm.INFINITY and (i != j or bound != dbm.LE_ZERO)
        ),
    )


def satisfies(d: dbm.Zone, n: int, i: int, j: int, bound: int) -> bool:
    """Whether some point has x_i - x_j within the bound."""
    return dbm.add(int(d[j * n + i]), bound) >= dbm.LE_ZERO


def same(a: dbm.Zone, b: dbm.Zone, n: int) -> bool:
    """Whether two zones have the same points."""
    return dbm.includes(a, b, n) and dbm.includes(b, a, n)


def intersects(a: dbm.Zone, b: dbm.Zone, n: int) -> bool:
    """Whether two zones have a point in common."""
    return dbm.meets(a, b, n, np.empty(n * n, np.int32))


def is_canonical(d: dbm.Zone, n: int) -> bool:
    """Whether the diagonal is zero and no path is tighter, on bounds as (constant, weak) pairs."""

    def bound(i: int, j: int) -> tuple[float, bool]:
        entry = int(d[i * n + j])
        assert entry <= dbm.INFINITY
        return (float("inf"), False) if entry == dbm.INFINITY else (entry >> 1, entry & 1 == 1)

    def path(i: int, k: int, j: int) -> tuple[float, bool]:
        (c, weak), (e, also) = bound(i, k), bound(k, j)
        return c + e, weak and also

    span = range(n)
    zero = all(bound(i, i) == (0, True) for i in span)
    return zero and all(bound(i, j) <= path(i, k, j) for i in span for j in span for k in span)


# --- points ---


@cache
def grid(m: int, height: int = 0) -> Points:
    """Returns all points with values from 0 to the height, in steps of 1/(m+1)."""
    steps = np.arange((height or HEIGHT[m]) * (m + 1) + 1)
    values = np.stack(np.meshgrid(*[steps] * m, indexing="ij"), axis=-1).reshape(-1, m)
    return np.concatenate([np.zeros((len(values), 1), np.int64), values], axis=1)


def holds(zone: Described, points: Points, unit: int = 0) -> Truths:
    """Which points are in the zone; `unit` is what a time of 1 is."""
    unit = unit or zone.n
    result = np.ones(len(points), bool)
    for one in zone.constraints:
        difference = points[:, one.i] - points[:, one.j]
        result &= difference < one.constant * unit + (0 if one.strict else 1)
    return result


def solve(zone: Described) -> tuple[int, ...] | None:
    """Returns the least point on the grid, after checking it; None if there is none."""
    x = [0] * zone.n
    for _ in range(zone.n + 1):
        before = list(x)
        for one in zone.constraints:
            x[one.j] = max(x[one.j], x[one.i] - one.constant * zone.n + one.strict)
        if x[0] > 0:
            return None
        if x == before:
            assert holds(zone, np.array([x])).all()
            return tuple(x)
    return None


def line_meets(zone: Described, points: Points, direction: list[int], back: bool) -> Truths:
    """For which points v some v + s*direction is in the zone, s any number, or >= 0 unless `back`.

    A direction has 0 and 1, or 0 and -1. In half units s is an integer from `low` to `high`: an
    interval with ends on the grid has a point iff it has one in half steps.
    """
    count = len(points)
    low = np.full(count, -(10**6) if back else 0)
    high = np.full(count, 10**6)
    fits = np.ones(count, bool)
    for one in zone.constraints:
        room = 2 * (one.constant * zone.n - points[:, one.i] + points[:, one.j]) - one.strict
        match direction[one.i] - direction[one.j]:
            case 0:
                fits &= room >= 0
            case 1:
                high = np.minimum(high, room)
            case -1:
                low = np.maximum(low, -room)
            case slope:
                raise AssertionError(slope)
    return fits & (low <= high)


# --- random zones ---


@st.composite
def constraints(draw: st.DrawFn, m: int) -> Constraint:
    """Any constraint."""
    i = draw(st.integers(0, m))
    j = draw(st.integers(0, m).filter(lambda k: k != i))
    largest = CONSTANT_MAX[m]
    return Constraint(i, j, draw(st.integers(-largest + 1, largest)), draw(st.booleans()))


@st.composite
def any_zones(draw: st.DrawFn, clocks_max: int = 4) -> Described:
    """Any constraints: the zone is often empty."""
    m = draw(st.integers(1, clocks_max))
    return describe(m, *draw(st.lists(constraints(m), max_size=2 * m + 2)))


@st.composite
def some_zones(draw: st.DrawFn, m: int) -> Described:
    """Constraints that a drawn grid point satisfies, so that the zone is not empty."""
    largest, n = CONSTANT_MAX[m], m + 1
    point = [0, *draw(st.lists(st.integers(0, (largest - 1) * n), min_size=m, max_size=m))]
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=2 * m + 2))
    found = []
    for i, j in chosen:
        difference = point[i] - point[j]
        constant = -(-difference // n) + draw(st.integers(0, 1))
        strict = draw(st.booleans()) and difference < constant * n
        found.append(Constraint(i, j, constant, strict))
    return describe(m, *found)


def tuples(clocks_max: int, count: int = 1) -> st.SearchStrategy[Any]:
    """`count` zones of the same clocks, none of them empty."""
    return st.integers(1, clocks_max).flatmap(lambda m: st.tuples(*[some_zones(m)] * count))
