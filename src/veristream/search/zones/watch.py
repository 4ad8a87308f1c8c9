"""The questions that a search of zones answers: conditions in convex parts, and what the kernel watches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from veristream.errors import ModelError
from veristream.ir.clock_bounds import ClockBounds, clock_bounds
from veristream.ir.clocks import number_clocks
from veristream.ir.constant import constant_value
from veristream.ir.disjuncts import Disjunct
from veristream.ir.expr import TRUE, ClockConstraint, ClockRef, ClockValue, Expr
from veristream.ir.network import Channel, Component, Network
from veristream.ir.property import Optimise
from veristream.kernel.watch import Watch
from veristream.search.zones.expand import Watched
from veristream.search.zones.explore import watched_parts

CONDITION_BITS = 62


@dataclass(frozen=True, slots=True)
class Part:
    """A convex part of a case's condition, and the bit of its condition on variables."""

    case: int
    bit: int
    disjunct: Disjunct


@dataclass(slots=True)
class Questions:
    """The cases of one search; `ask` numbers them."""

    network: Network
    parts: list[Part] = field(default_factory=list)
    conditions: list[Expr] = field(default_factory=list)
    measures: list[Optimise] = field(default_factory=list)
    measure_of: list[int] = field(default_factory=list)  # per case, -1 for none

    def ask(self, disjuncts: Sequence[Disjunct], optimise: Optimise | None = None) -> int:
        """Adds a case: whether one of the parts is found, or the best value where one is."""
        case = len(self.measure_of)
        self.measure_of.append(-1)
        if optimise is not None:
            self.measure_of[case] = len(self.measures)
            self.measures.append(optimise)
        for disjunct in disjuncts:
            self.parts.append(Part(case, self._bit(disjunct.condition), disjunct))
        return case

    def _bit(self, condition: Expr) -> int:
        if condition in self.conditions:
            return self.conditions.index(condition)
        if len(self.conditions) == CONDITION_BITS:
            raise ModelError(
                f"a property combines clocks with more than {CONDITION_BITS} different conditions",
                condition.span,
                "split the property",
            )
        self.conditions.append(condition)
        return len(self.conditions) - 1

    def watch(self) -> Watch:
        """The propositions, measures and clock tests that the kernel evaluates."""
        return Watch(
            states=tuple(self.conditions),
            measures=tuple(
                TRUE if isinstance(one.value, ClockValue) else one.value for one in self.measures
            ),
            tests=tuple(part.disjunct.clocks for part in self.parts),
        )

    def watched(self) -> Watched:
        """The parts that the search watches for."""
        goals = [
            (self.clock_of(m), 1 if one.direction == "max" else -1) for m, one in enumerate(self.measures)
        ]
        return watched_parts(
            [part.case for part in self.parts],
            [part.bit for part in self.parts],
            [bool(part.disjunct.clocks) for part in self.parts],
            [part.disjunct.deadlock for part in self.parts],
            self.measure_of,
            goals,
        )

    def clock_of(self, measure: int) -> int:
        """The number of the clock that is measured; 0 if the measure is a value."""
        value = self.measures[measure].value
        return number_of(self.network, value.clock) if isinstance(value, ClockValue) else 0

    def asked(self) -> list[ClockConstraint]:
        """All clock constraints of all parts."""
        return [constraint for part in self.parts for constraint in part.disjunct.clocks]

    def bounds(self, exact: bool, reach: int) -> ClockBounds:
        """Up to which values zones distinguish clocks: `exact` if the search also depends on what is
        impossible; measured clocks up to `reach`."""
        found = clock_bounds(self.network, self.asked())
        deadlocks = any(part.disjunct.deadlock is not None for part in self.parts)
        clocks = [self.clock_of(m) for m in range(len(self.measures))]
        lower, upper = found.lower, found.upper
        if exact or deadlocks or any(clocks) or found.differences or _has_priorities(self.network):
            lower = upper = np.maximum(lower, upper)
        for clock in clocks:
            if clock:
                lower[:, clock] = np.maximum(lower[:, clock], reach)
        return ClockBounds(lower, upper, found.differences)


def _has_priorities(network: Network) -> bool:
    """Whether some steps are possible only if others are not."""
    parts: tuple[Channel | Component, ...] = network.channels + network.components
    return any(part.priority for part in parts)


def number_of(network: Network, ref: ClockRef) -> int:
    """The number of a clock with constant indices; raises ModelError for others."""
    clock = number_clocks(network)[ref.clock]
    number = 0
    for index, size in zip(ref.indices, clock.shape, strict=True):
        at = constant_value(index)
        if at is None or not 0 <= at < size:
            raise ModelError(
                "the index of the clock must be a constant here", ref.span, "use a constant index"
            )
        number = number * size + at
    return clock.first + number
