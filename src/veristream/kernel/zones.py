"""Zones of clock values as difference bound matrices, in native code.

A zone over the clocks 1..n-1 is a flat array of n*n bounds: entry `i*n + j` bounds x_i - x_j, and x_0
is the constant zero. A bound is encoded so that a tighter bound is a smaller number: `<= c` is 2*c + 1,
`< c` is 2*c, and no bound is INFINITY.

Every operation takes zones in canonical form (no sum of bounds along a path is tighter than the bound
itself) and keeps them canonical; only `close` takes any matrix. Clocks are never negative. An operation
that empties a zone returns False and makes entry 0 negative; after that, only `copy`, `includes`, `same`,
`intersects`, `is_empty` and the two `set_` operations may be used on it. Constants stay well below 2**28,
so that no sum of bounds overflows.

After Bengtsson and Yi, "Timed automata: semantics, algorithms and tools" (2004).
"""

# ruff: noqa: SIM110  # Numba compiles loops, not generators

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from veristream.native.loop import loop

Zone = NDArray[np.int32]
"""n*n bounds in row-major order."""

INFINITY = 2**30 - 2
"""The bound that excludes nothing; even, as `< infinity` is strict."""

LE_ZERO = 1
EMPTY = -1
"""Entry 0 of an empty zone."""


# --- bounds ---


@loop
def at_most(constant: int) -> int:
    """The bound `<= constant`."""
    return 2 * constant + 1


@loop
def below(constant: int) -> int:
    """The bound `< constant`."""
    return 2 * constant


@loop
def complement(bound: int) -> int:
    """Returns the bound on x_j - x_i that holds exactly if the finite bound on x_i - x_j does not."""
    return 1 - bound


@loop
def add(left: int, right: int) -> int:
    """Returns the bound on x - z implied by bounds on x - y and y - z: strict if either is."""
    if left == INFINITY or right == INFINITY:
        return INFINITY
    return left + right - ((left | right) & 1)


# --- making zones ---


@loop
def set_zero(d: Zone, n: int) -> None:
    """Sets every clock to 0."""
    for k in range(n * n):
        d[k] = LE_ZERO


@loop
def set_universe(d: Zone, n: int) -> None:
    """Lets every clock have any non-negative value."""
    for i in range(n):
        for j in range(n):
            d[i * n + j] = LE_ZERO if i == 0 or i == j else INFINITY


@loop
def copy(source: Zone, target: Zone, n: int) -> None:
    """Copies a zone to the target."""
    for k in range(n * n):
        target[k] = source[k]


@loop
def close(d: Zone, n: int) -> bool:
    """Makes a matrix canonical whose diagonal is LE_ZERO; False if the zone is empty."""
    for k in range(n):
        for i in range(n):
            first = d[i * n + k]
            if i == k or first == INFINITY:
                continue
            for j in range(n):
                through = add(first, d[k * n + j])
                if through < d[i * n + j]:
                    d[i * n + j] = through
            # at once: around a negative cycle the bounds would double with each k
            if d[i * n + i] < LE_ZERO:
                d[0] = EMPTY
                return False
    return True


# --- asking ---


@loop
def is_empty(d: Zone) -> bool:
    """Whether an operation has emptied the zone."""
    return bool(d[0] < LE_ZERO)


@loop
def implies(d: Zone, n: int, i: int, j: int, bound: int) -> bool:
    """Whether all points have x_i - x_j within the bound."""
    return bool(d[i * n + j] <= bound)


@loop
def includes(big: Zone, small: Zone, n: int) -> bool:
    """Whether the big zone contains every point of the small one."""
    if small[0] < LE_ZERO:
        return True
    for k in range(n * n):
        if big[k] < small[k]:
            return False
    return True


@loop
def meets(a: Zone, b: Zone, n: int, room: Zone) -> bool:
    """Whether two zones have a point in common; `room` is for a zone."""
    if a[0] < LE_ZERO or b[0] < LE_ZERO:
        return False
    for i in range(n):  # most disjoint zones are apart in one difference already
        for j in range(n):
            if add(a[i * n + j], b[j * n + i]) < LE_ZERO:
                return False
    if n < 4:
        return True  # a longer cycle that alternates between the zones has at least four numbers
    for k in range(n * n):
        room[k] = min(a[k], b[k])
    return close(room, n)


@loop
def is_unbounded(d: Zone, n: int) -> bool:
    """Whether no clock has an upper bound: in a delayed zone, time can then pass forever."""
    for i in range(1, n):
        if d[i * n] != INFINITY:
            return False
    return True


# --- cutting ---


@loop
def constrain(d: Zone, n: int, i: int, j: int, bound: int) -> bool:
    """Keeps the points with x_i - x_j within the bound; False if none remains."""
    if d[i * n + j] <= bound:
        return True
    if add(d[j * n + i], bound) < LE_ZERO:
        d[0] = EMPTY
        return False
    # a path that became tighter uses the new bound once: k to i, i to j, j to l
    for k in range(n):
        first = add(d[k * n + i], bound)
        if first == INFINITY:
            continue
        for l in range(n):  # noqa: E741
            through = add(first, d[j * n + l])
            if through < d[k * n + l]:
                d[k * n + l] = through
    return True


@loop
def intersect(d: Zone, other: Zone, n: int) -> bool:
    """Keeps the points that are also in the other zone; False if none remains."""
    changed = False
    for k in range(n * n):
        if other[k] < d[k]:
            d[k] = other[k]
            changed = True
    return close(d, n) if changed else True


# --- moving ---


@loop
def up(d: Zone, n: int) -> None:
    """Adds the points that are reached by letting time pass."""
    for i in range(1, n):
        d[i * n] = INFINITY


@loop
def up_within(d: Zone, n: int, limits: Zone) -> None:
    """Adds the points that are reached by letting time pass while no clock exceeds its limit; `limits` has
    a bound for each clock number, and the zone must not exceed them."""
    for i in range(1, n):
        most = INFINITY
        for j in range(1, n):
            # all clocks grow at the same rate, so the limit of one limits all others
            most = min(most, add(d[i * n + j], limits[j]))
        d[i * n] = most
    for i in range(1, n):
        if d[i * n] == INFINITY:
            continue
        for j in range(1, n):
            through = add(d[i * n], d[j])
            if through < d[i * n + j]:
                d[i * n + j] = through


@loop
def down(d: Zone, n: int) -> None:
    """Adds the points from which letting time pass reaches the zone."""
    for j in range(1, n):
        lowest = LE_ZERO
        for i in range(1, n):
            lowest = min(lowest, d[i * n + j])
        d[j] = lowest


@loop
def reset(d: Zone, n: int, clock: int, value: int) -> None:
    """Sets a clock to a non-negative value."""
    for k in range(n):
        if k != clock:
            d[clock * n + k] = add(d[k], at_most(value))
            d[k * n + clock] = add(d[k * n], at_most(-value))


@loop
def free(d: Zone, n: int, clock: int) -> None:
    """Lets a clock have any non-negative value."""
    for k in range(n):
        if k != clock:
            d[clock * n + k] = INFINITY
            d[k * n + clock] = d[k * n]


@loop
def relax_upper(d: Zone, n: int) -> None:
    """Adds the points at which a delay just leaves the zone: upper bounds < c become <= c.

    Differences keep their bounds; an upper bound that they make strict stays strict.
    """
    for i in range(1, n):
        if d[i * n] != INFINITY:
            d[i * n] |= 1
    for i in range(1, n):
        for k in range(1, n):
            d[i * n] = min(d[i * n], add(d[i * n + k], d[k * n]))


@loop
def relax_lower(d: Zone, n: int) -> None:
    """Adds the points from which a delay just enters the zone: lower bounds > c become >= c.

    Differences keep their bounds; a lower bound that they make strict stays strict.
    """
    for j in range(1, n):
        d[j] |= 1
    for j in range(1, n):
        for k in range(1, n):
            d[j] = min(d[j], add(d[k], d[k * n + j]))
