"""Clocks by number, and constraints on them.

Clock 0 is the constant zero, so that `x < 3` and `x - y < 3` are the same kind of constraint. The clocks of
a network are numbered from 1 in their order, arrays row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from veristream.ir.network import Network


@dataclass(frozen=True, slots=True)
class Bound:
    """`left - right <= limit`, or `<` if `strict`; clocks are identified by number."""

    left: int
    right: int
    limit: int
    strict: bool = False


@dataclass(frozen=True, slots=True)
class ClockEffect:
    """The bounds on clocks before a step, in the order of the movers, and its resets by clock number."""

    bounds: tuple[Bound, ...] = ()
    resets: tuple[tuple[int, int], ...] = ()


NO_CLOCKS = ClockEffect()


@dataclass(frozen=True, slots=True)
class NumberedClock:
    """A clock, or an array of clocks, with the number of its first element."""

    first: int
    shape: tuple[int, ...]


def number_clocks(network: Network) -> dict[str, NumberedClock]:
    """Returns the numbers of all clocks by name."""
    numbered: dict[str, NumberedClock] = {}
    first = 1
    for clock in network.clocks:
        numbered[clock.name] = NumberedClock(first, clock.shape)
        first += prod(clock.shape)
    return numbered


def count_clocks(network: Network) -> int:
    """Returns the number of clocks without the constant zero."""
    return sum(prod(clock.shape) for clock in network.clocks)


def list_clocks(network: Network) -> list[str]:
    """Returns the names of the clocks by number, `x[1][0]` for elements of arrays; clock 0 has no name."""
    names = [""]
    for clock in network.clocks:
        names += [clock.name + "".join(f"[{i}]" for i in at) for at in _places(clock.shape)]
    return names


def _places(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    if not shape:
        return [()]
    return [(i, *rest) for i in range(shape[0]) for rest in _places(shape[1:])]


def bounds_of(op: str, left: int, right: int, limit: int) -> tuple[Bound, ...]:
    """Expresses `left - right op limit` as bounds."""
    match op:
        case "<" | "<=":
            return (Bound(left, right, limit, op == "<"),)
        case ">" | ">=":
            return (Bound(right, left, -limit, op == ">"),)
        case _:
            return (Bound(left, right, limit), Bound(right, left, -limit))
