"""Clocks by number, and conditions that speak of them.

Number 0 is the constant zero, so that `x < 3` and `x - y < 3` are one kind of constraint; the clocks of a
network follow from 1 in their order, arrays row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from veristream.ir.network import Network


@dataclass(frozen=True, slots=True)
class Bound:
    """`left - right` is at most `limit`, or less than it where `strict`; clocks are given by number."""

    left: int
    right: int
    limit: int
    strict: bool = False


@dataclass(frozen=True, slots=True)
class ClockEffect:
    """What a step has to do with clocks: the bounds that they must satisfy before it, in the order of the
    movers, and the values that it gives them, by number."""

    bounds: tuple[Bound, ...] = ()
    resets: tuple[tuple[int, int], ...] = ()


NO_CLOCKS = ClockEffect()


@dataclass(frozen=True, slots=True)
class NumberedClock:
    """Where a clock, or an array of them, stands: the number of its first element."""

    first: int
    shape: tuple[int, ...]


def number_clocks(network: Network) -> dict[str, NumberedClock]:
    """The numbers of all clocks."""
    numbered: dict[str, NumberedClock] = {}
    first = 1
    for clock in network.clocks:
        numbered[clock.name] = NumberedClock(first, clock.shape)
        first += prod(clock.shape)
    return numbered


def count_clocks(network: Network) -> int:
    """How many clocks there are, the constant zero not counted."""
    return sum(prod(clock.shape) for clock in network.clocks)


def list_clocks(network: Network) -> list[str]:
    """The clocks' names by number, `x[1][0]` for elements of arrays; number 0 has none."""
    names = [""]
    for clock in network.clocks:
        names += [clock.name + "".join(f"[{i}]" for i in at) for at in _places(clock.shape)]
    return names


def _places(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    if not shape:
        return [()]
    return [(i, *rest) for i in range(shape[0]) for rest in _places(shape[1:])]


def bounds_of(op: str, left: int, right: int, limit: int) -> tuple[Bound, ...]:
    """`left - right op limit` as bounds."""
    match op:
        case "<" | "<=":
            return (Bound(left, right, limit, op == "<"),)
        case ">" | ">=":
            return (Bound(right, left, -limit, op == ">"),)
        case _:
            return (Bound(left, right, limit), Bound(right, left, -limit))
