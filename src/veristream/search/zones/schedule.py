"""Concrete times for the steps of a run that a search of zones found.

The value of a clock is the time since the step that set it, plus the value it was set to. So every guard
and invariant along a run bounds the difference of the times of two steps. The least solution of such a
system is a longest path: the run in which every step happens as early as possible. "Strictly later" is
represented by an infinitesimal, which becomes a half, or a quarter, ... in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from veristream.ir.clocks import Bound


@dataclass(frozen=True, slots=True)
class Stay:
    """A state of the run: the bounds on the clocks when the run enters and when it leaves, whether time may
    pass, and the clocks that the step into it set (none for the first state: all begin at 0)."""

    coming: tuple[Bound, ...]
    leaving: tuple[Bound, ...]
    may_delay: bool
    resets: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class _Demand:
    """Moment `after` is later than moment `before` by at least `least`, by more if `strict`."""

    before: int
    after: int
    least: int
    strict: bool


def schedule(stays: Sequence[Stay]) -> list[Fraction] | None:
    """The shortest time to stay in each state; None if no run satisfies all bounds."""
    last = len(stays)
    demands = [_Demand(i, i + 1, 0, False) for i in range(last)]
    demands += [_Demand(i + 1, i, 0, False) for i, stay in enumerate(stays) if not stay.may_delay]
    set_at: dict[int, tuple[int, int]] = {}
    for i, stay in enumerate(stays):
        set_at.update((clock, (i, value)) for clock, value in stay.resets)
        for moment, bounds in ((i, stay.coming), (i + 1, stay.leaving)):
            demands += [_demand(bound, moment, set_at) for bound in bounds]
    moments = _earliest(last + 1, demands)
    if moments is None:
        return None
    return [later - sooner for sooner, later in pairwise(moments)]


def _demand(bound: Bound, moment: int, set_at: dict[int, tuple[int, int]]) -> _Demand:
    """The bound on `left - right` at the moment, as a demand on the moments at which the clocks were
    set."""

    def origin(clock: int) -> tuple[int, int]:
        return (moment, 0) if clock == 0 else set_at.get(clock, (0, 0))

    (left, left_value), (right, right_value) = origin(bound.left), origin(bound.right)
    # left - right = (now - T_left + v_left) - (now - T_right + v_right); zero is a clock set just now.
    return _Demand(right, left, left_value - right_value - bound.limit, bound.strict)


def _earliest(count: int, demands: Sequence[_Demand]) -> list[Fraction] | None:
    """The least moments, the first being 0; None if the demands contradict each other."""
    moments = [(0, 0)] * count  # whole units, and how often strictly later
    for turn in range(count + 1):
        changed = False
        # From first to last and back: lower bounds push what comes after, upper bounds what comes before.
        for demand in reversed(demands) if turn % 2 else demands:
            units, steps = moments[demand.before]
            least = (units + demand.least, steps + demand.strict)
            if least > moments[demand.after]:
                moments[demand.after] = least
                changed = True
        if not changed:
            break
    else:
        return None
    if moments[0] != (0, 0):
        return None
    return _concrete(moments)


def _concrete(moments: Sequence[tuple[int, int]]) -> list[Fraction]:
    little = Fraction(1)
    while little * (max(steps for _, steps in moments) + 1) > 1:
        little /= 2
    return [units + steps * little for units, steps in moments]
