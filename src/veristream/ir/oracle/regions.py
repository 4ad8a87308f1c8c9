"""Regions: sets of clock valuations that no constraint of a network can distinguish, now or later.

Two valuations are in one region if every clock has the same integer part and the fractions of all clocks
have the same order, including which are 0; for a clock beyond the largest constant that any clock is
compared with, only that fact matters (Alur and Dill, "A theory of timed automata", 1994). Each region is
represented by one valuation with evenly spread fractions, so every operation on valuations also works on
regions.

Differences such as `x - y < 3` distinguish clocks even beyond the largest constant. The value of such a
clock matters up to the *horizon*, the largest constant plus the greatest value that a clock is set to: the
difference from a clock that is set next must be known up to the largest constant. Beyond the horizon, sort
those clocks by value: the gap between two neighbours matters only up to the largest constant.

A grid of a fixed unit cannot replace regions if bounds are strict: n rounds that all take time, and
together less than one unit, need a grid finer than 1/n.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, prod

from veristream.ir.bounds import Names, interval, names_of
from veristream.ir.clocks import number_clocks
from veristream.ir.expr import ClockConstraint, ClockRef, Fold, For, Let, Reset, Type
from veristream.ir.network import Bind, Network, Parameter, Receive, Select
from veristream.ir.walk import walk

Valuation = tuple[Fraction, ...]
"""Clock values by number; clock 0 is 0."""


@dataclass(frozen=True, slots=True)
class Regions:
    """The regions of one network."""

    ceiling: int  # no clock is compared with a larger constant
    horizon: int  # larger values of compared clocks are equivalent if their differences are
    linked: frozenset[int]  # clocks that are compared with other clocks

    def representative(self, clocks: Valuation) -> Valuation:
        """Returns the valuation that represents the region."""
        values = self._close_gaps(clocks)
        relevant = self._relevant(clocks)
        ranks = sorted({value % 1 for i, value in enumerate(values) if i in relevant} - {0})
        spread = {rank: Fraction(i + 1, len(ranks) + 1) for i, rank in enumerate(ranks)}
        beyond = Fraction(self.ceiling + 1)
        shown = (
            floor(value) + spread.get(value % 1, Fraction(0)) if i in relevant else beyond
            for i, value in enumerate(values[1:], 1)
        )
        return (Fraction(0), *shown)

    def until_next(self, clocks: Valuation) -> Fraction:
        """Returns a delay that leads into the next region; 1 if there is none."""
        fractions = [clocks[i] % 1 for i in self._relevant(clocks)]
        if not fractions:
            return Fraction(1)
        rest = 1 - max(fractions)
        return rest / 2 if 0 in fractions else rest

    def _relevant(self, clocks: Valuation) -> frozenset[int]:
        """Returns the clocks with values that still matter."""
        small = (i for i in range(1, len(clocks)) if clocks[i] <= self.ceiling)
        return self.linked.union(small)

    def _close_gaps(self, clocks: Valuation) -> list[Fraction]:
        """Returns the least valuation of the same region, except for the fractions."""
        values = list(clocks)
        last, shift = Fraction(0), 0
        for number in sorted(self.linked, key=lambda i: clocks[i]):
            value = clocks[number]
            if value > self.horizon and value - last > self.ceiling:
                exceeded = max(Fraction(self.horizon), last - shift + self.ceiling)
                shift = ceil(value - exceeded) - 1
            last = value
            values[number] -= shift
        return values


def regions_of(network: Network) -> Regions:
    """Returns the regions for all constraints of the network and its properties."""
    names = _with_locals(network)
    clocks = number_clocks(network)
    largest, greatest_reset = 0, 0
    linked: set[int] = set()
    for node in walk(network):
        if isinstance(node, ClockConstraint):
            bound = interval(node.bound, names)
            largest = max(largest, abs(bound.low), abs(bound.high))
            for ref in (node.left, node.right) if node.right is not None else ():
                assert isinstance(ref, ClockRef)
                first, shape = clocks[ref.clock].first, clocks[ref.clock].shape
                linked.update(range(first, first + prod(shape)))
        elif isinstance(node, Reset):
            greatest_reset = max(greatest_reset, interval(node.value, names).high)
    return Regions(largest, largest + greatest_reset, frozenset(linked))


def _with_locals(network: Network) -> Names:
    """Returns all names, including locals; equal names in different scopes get the widest type."""
    names = names_of(network)
    for node in walk(network):
        for name, type_ in _declares(node, names):
            known = names.locals.get(name, type_)
            widest = Type(min(known.low, type_.low), max(known.high, type_.high))
            names = replace(names, locals={**names.locals, name: widest})
    return names


def _declares(node: object, names: Names) -> Iterator[tuple[str, Type]]:
    match node:
        case Let(name=name, type=type_) | Parameter(name=name, type=type_):
            yield name, type_
        case For(name=name, low=low, high=high) | Fold(name=name, low=low, high=high):
            yield name, Type(low, high)
        case Select(name=name, low=low, high=high):
            yield name, Type(low, high)
        case Receive(channel=channel, patterns=patterns):
            for type_, pattern in zip(names.channels[channel].fields, patterns, strict=True):
                if isinstance(pattern, Bind):
                    yield pattern.name, type_
        case _:
            return
