"""Extrapolation: enlarges zones so that only finitely many remain, without changing any verdict.

What a timed automaton can do depends on a clock x only through its guards and invariants. Let L(x) be
the greatest constant that x is compared with from below (x >= c, x > c) and U(x) the greatest one from
above (x <= c, x < c); -1 means that there is none. A point v simulates a point w if for every clock:
w(x) < v(x) only if w(x) > U(x), and w(x) > v(x) only if v(x) > L(x). Whatever the automaton does from w,
it can also do from v. Every point of an extrapolated zone is simulated by one of the zone itself, so
both reach the same locations, for automata without guards on differences of clocks.

After Behrmann, Bouyer, Larsen and Pelánek, "Lower and upper bounds in zone-based abstractions of timed
automata" (2006): Extra+_LU, the coarsest in that paper. With L = U it is Extra+_M.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from veristream.kernel.zones import INFINITY, LE_ZERO, Zone, add, at_most, below, close, free
from veristream.native.loop import loop

Constants = NDArray[np.int32]
"""A constant for each clock number, at least -1; entry 0 is unused."""


@loop
def _exceeds(d: Zone, clock: int, constant: int) -> bool:
    """Whether the clock's lower bound is above the constant."""
    return bool(d[clock] < below(-constant))


@loop
def extrapolate_lu(d: Zone, n: int, lower: Constants, upper: Constants) -> None:
    """Extra+_LU, with L and U for each clock."""
    changed = False
    for i in range(1, n):
        if lower[i] < 0 and upper[i] < 0:
            continue
        row_goes = _exceeds(d, i, lower[i])
        for j in range(n):
            k = i * n + j
            if i == j or d[k] == INFINITY:
                continue
            if j > 0 and lower[j] < 0 and upper[j] < 0:
                continue
            if row_goes or d[k] > at_most(lower[i]) or (j > 0 and _exceeds(d, j, upper[j])):
                d[k] = INFINITY
                changed = True
    for j in range(1, n):  # last, as the rules above read the old lower bounds
        if lower[j] < 0 and upper[j] < 0:
            continue
        kept = min(LE_ZERO, below(-upper[j]))
        if d[j] < kept and _exceeds(d, j, upper[j]):
            d[j] = kept
            changed = True
    for i in range(1, n):
        if lower[i] < 0 and upper[i] < 0:
            free(d, n, i)  # the same as the rules, without closing the whole zone again
    if changed:
        close(d, n)


@loop
def covers(big: Zone, small: Zone, n: int, lower: Constants, upper: Constants) -> bool:
    """Whether each point of the small zone is simulated by a point of the big one, with L and U for each
    clock; both zones are canonical."""
    if small[0] < LE_ZERO:
        return True
    for i in range(n):
        least = small[i]
        if i > 0 and (upper[i] < 0 or least < at_most(-upper[i])):
            continue  # all points are beyond U, so a point with a greater value of the clock simulates them
        for j in range(n):
            bound = big[j * n + i]
            if bound >= small[j * n + i]:
                continue
            if j == 0:
                return False
            if lower[j] >= 0 and add(bound, below(-lower[j])) < least:
                return False
    return True
