"""Regions: sets of clock values that no constraint of a network can tell apart, now or later.

Two valuations are in one region when every clock has the same whole part and the fractions of all clocks
are in the same order, those that are 0 included; of a clock beyond the greatest constant that any clock is
compared with, only that matters (Alur and Dill, "A theory of timed automata", 1994). Each region is
given by one valuation in it, its fractions spread evenly, so that everything that can be done with
valuations can be done with regions.

Differences such as `x - y < 3` tell such clocks apart even beyond the greatest constant. Sort those
clocks by what they show, the constant zero with them: where the gap between two neighbours is larger
than any constant and any value that a clock is set to, how much larger makes no difference, so it is
made smaller by a whole number.

A grid of a fixed unit would not do in place of regions where bounds are strict: n rounds that all take
time, and together less than one unit, need a grid finer than 1/n.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from math import ceil, floor, prod

from veristream.ir.bounds import Names, interval, names_of
from veristream.ir.clocks import number_clocks
from veristream.ir.expr import ClockConstraint, ClockRef, Fold, For, Let, Reset, Type
from veristream.ir.network import Bind, Network, Parameter, Receive, Select

Valuation = tuple[Fraction, ...]
"""What the clocks show, by number; number 0 shows 0."""


@dataclass(frozen=True, slots=True)
class Regions:
    """The regions of one network."""

    ceiling: int  # no clock is compared with a larger constant
    gap: int  # between clocks that are compared with each other, no larger difference matters
    linked: frozenset[int]  # clocks that are compared with others

    def representative(self, clocks: Valuation) -> Valuation:
        """The one valuation that stands for the region of this one."""
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
        """After how long another region is entered, and is not left yet; where none ever is, 1."""
        fractions = [clocks[i] % 1 for i in self._relevant(clocks)]
        if not fractions:
            return Fraction(1)
        rest = 1 - max(fractions)
        return rest / 2 if 0 in fractions else rest

    def _relevant(self, clocks: Valuation) -> frozenset[int]:
        """The clocks whose values still matter."""
        small = (i for i in range(1, len(clocks)) if clocks[i] <= self.ceiling)
        return self.linked.union(small)

    def _close_gaps(self, clocks: Valuation) -> list[Fraction]:
        values = list(clocks)
        shift, last = 0, Fraction(0)
        for number in sorted(self.linked, key=lambda i: clocks[i]):
            excess = clocks[number] - last - self.gap
            # What is left of the gap is larger than `gap`, by one unit at most.
            shift += max(0, ceil(excess) - 1)
            last = clocks[number]
            values[number] -= shift
        return values


def regions_of(network: Network) -> Regions:
    """The regions that all constraints of the network and its properties need."""
    names = _with_locals(network)
    clocks = number_clocks(network)
    largest, greatest_reset = 0, 0
    linked: set[int] = set()
    for node in _walk(network):
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


def _walk(node: object) -> Iterator[object]:
    """The node and everything in it."""
    if isinstance(node, tuple):
        for part in node:
            yield from _walk(part)
    elif is_dataclass(node):
        yield node
        for part in fields(node):
            if part.name != "span":
                yield from _walk(getattr(node, part.name))


def _with_locals(network: Network) -> Names:
    """All names, local ones too; those of one name in different scopes share the widest type."""
    names = names_of(network)
    for node in _walk(network):
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
