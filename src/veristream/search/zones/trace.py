"""Timed traces: a zone path as a run with concrete delays, replayed before it is reported.

Extrapolated zones include unreachable clock values, so the path is first replayed without extrapolation
(see `zones.path`); the clock values at its end then determine the delays.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from veristream.ir.clocks import NO_CLOCKS, Bound, ClockEffect
from veristream.ir.expr import ClockConstraint
from veristream.ir.network import Network
from veristream.ir.oracle.timed import TimedInterpreter, TimedState
from veristream.ir.show import show_timed
from veristream.ir.state import State
from veristream.kernel.layout import Row, decode
from veristream.kernel.load import Kernel
from veristream.kernel.zones import INFINITY
from veristream.search.zones.explore import Origin
from veristream.search.zones.schedule import Stay, schedule
from veristream.search.zones.steps import Shape, bound_left, bound_limit, bound_right
from veristream.verdict import Step, Trace

_SUCCESSORS = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)


@dataclass(frozen=True, slots=True)
class Hop:
    """A state on a path, and how it was reached: by which action, and as which of the successors.

    Both are None in the first state, if waiting alone led to another part of the condition that the run
    stays in, and where the run begins to stay in it, in the numbered part that is its `cause`. The
    constraints of the part that it stays in are `within`, those of the cause `at_first`. The run leaves the
    state with its clocks within `leaving`, if that is given.
    """

    row: Row
    action: int | None = None
    successor: int | None = None
    part: int | None = None
    within: tuple[ClockConstraint, ...] = ()
    leaving: tuple[Bound, ...] = ()
    cause: int | None = None
    at_first: tuple[ClockConstraint, ...] = ()


class Originated(Protocol):
    """Knows where its nodes were found from."""

    def origin(self, node: int) -> Origin: ...


def path_to(zones: Originated, node: int) -> list[Hop]:
    """The path from the initial state to a node."""
    hops: list[Hop] = []
    at: int | None = node
    while at is not None:
        found = zones.origin(at)
        at = found.parent
        led = (None, None) if at is None else (found.entry & 0xFFFFFFFF, found.entry >> 32)
        hops.append(Hop(found.row, *led))
    return hops[::-1]


@dataclass(frozen=True, slots=True)
class TraceBuilder:
    """Builds traces of one network."""

    network: Network
    kernel: Kernel
    shape: Shape
    interpreter: TimedInterpreter

    def state(self, row: Row) -> State:
        """The discrete state of a row."""
        return decode(self.kernel.layout, self.network, row[: self.shape.word_count])

    def effect(self, row: Row, successor: int) -> ClockEffect:
        """The bounds and resets of clocks in the numbered step from the row's state."""
        words = _successor_words(self.kernel, self.shape, row, successor)
        resets, rest = words[self.shape.word_count :][: self.shape.n - 1], words[self.shape.word_count :]
        count = int(rest[self.shape.n - 1])
        bounds = rest[self.shape.n : self.shape.n + count]
        return ClockEffect(
            tuple(_bound(int(word)) for word in bounds),
            tuple((clock + 1, int(value)) for clock, value in enumerate(resets) if value >= 0),
        )

    def build(
        self,
        hops: Sequence[Hop],
        final: Sequence[Bound] = (),
        loop: int | None = None,
        shortest: bool = False,
    ) -> Trace:
        """The run along the path in which everything happens as early as possible; `loop` is a position on
        the path."""
        effects = [
            NO_CLOCKS if hop.successor is None else self.effect(before.row, hop.successor)
            for before, hop in pairwise(hops)
        ]
        stays = [self._stay(hops, effects, i, final) for i in range(len(hops))]
        delays = schedule(stays)
        assert delays is not None, "a path of zones is a run"
        steps, positions = self._replay(hops, effects, delays)
        return Trace(steps, None if loop is None else positions[loop], shortest)

    def _stay(
        self, hops: Sequence[Hop], effects: Sequence[ClockEffect], i: int, final: Sequence[Bound]
    ) -> Stay:
        state = self.state(hops[i].row)
        invariant = self.interpreter.untimed.invariant_bounds(state)
        within = self._bounds(hops[i].within, state)
        coming, leaving = within + self._bounds(hops[i].at_first, state), within
        if i and hops[i].successor is None and hops[i].cause is None:
            coming = _closed(within)
        if i + 1 < len(hops):
            if hops[i + 1].successor is None:
                leaving = _closed(within)
            leaving += effects[i].bounds + hops[i].leaving
        else:
            leaving += tuple(final)
        resets = effects[i - 1].resets if i else ()
        may_delay = self.interpreter.untimed.may_delay(state)
        return Stay(invariant + coming, invariant + leaving, may_delay, resets)

    def _bounds(self, constraints: Sequence[ClockConstraint], state: State) -> tuple[Bound, ...]:
        untimed = self.interpreter.untimed
        return tuple(bound for one in constraints for bound in untimed.bounds(one, state))

    def _replay(
        self, hops: Sequence[Hop], effects: Sequence[ClockEffect], delays: Sequence[Fraction]
    ) -> tuple[tuple[Step, ...], list[int]]:
        """The steps of the run, and for each position on the path the step that led there."""
        now = self.interpreter.initial()
        steps = [Step(None, None, show_timed(self.network, now.state, now.clocks), 0.0)]
        positions = [0]
        waited = Fraction(0)
        for hop, effect, delay in zip(hops[1:], effects, delays, strict=False):
            now = self._wait(now, delay)
            waited += delay
            if hop.successor is not None:
                now, label, process = self._take(now, hop, effect)
                steps.append(
                    Step(label, process, show_timed(self.network, now.state, now.clocks), float(waited))
                )
                waited = Fraction(0)
            positions.append(len(steps) - 1)
        now = self._wait(now, delays[-1])
        waited += delays[-1]
        if waited:
            steps.append(Step(None, None, show_timed(self.network, now.state, now.clocks), float(waited)))
        return tuple(steps), positions

    def _wait(self, now: TimedState, delay: Fraction) -> TimedState:
        later = self.interpreter.delay(now, delay)
        assert later is not None, "the interpreter lets no time pass where zones do"
        return later

    def _take(self, now: TimedState, hop: Hop, effect: ClockEffect) -> tuple[TimedState, str, str]:
        """The step that the interpreter takes to the hop's state."""
        wanted = self.state(hop.row)
        for step in self.interpreter.steps(now):
            taken = step.taken
            if (
                taken.action == hop.action
                and taken.state == wanted
                and taken.clocks.resets == effect.resets
            ):
                return step.target, taken.label, taken.process
        raise AssertionError(f"the interpreter knows no such step: {now} to {wanted}")


def _closed(bounds: tuple[Bound, ...]) -> tuple[Bound, ...]:
    return tuple(replace(bound, strict=False) for bound in bounds)


def _bound(word: int) -> Bound:
    limit = int(bound_limit(word))
    return Bound(int(bound_left(word)), int(bound_right(word)), limit >> 1, not limit & 1)


def zone_bounds(zone: NDArray[np.int32], n: int) -> tuple[Bound, ...]:
    """The zone as bounds."""
    return tuple(
        Bound(i, j, int(zone[i * n + j]) >> 1, not int(zone[i * n + j]) & 1)
        for i in range(n)
        for j in range(n)
        if i != j and zone[i * n + j] < INFINITY
    )


def list_successors(kernel: Kernel, row: int, rows: NDArray[np.int64], actions: NDArray[np.int64]) -> int:
    """Writes the successors of the row at the address; returns their number, or -1 if there is no room."""
    call = _SUCCESSORS(kernel.successors)
    return int(call(row, rows.ctypes.data, actions.ctypes.data, len(actions)))


def _successor_words(kernel: Kernel, shape: Shape, row: Row, successor: int) -> NDArray[np.int64]:
    """The row of the numbered successor, including the words for its clocks."""
    source = row.view(np.int64).copy()
    capacity = successor + 1
    while True:
        rows, actions = np.zeros(capacity * shape.stride, np.int64), np.zeros(capacity, np.int64)
        if list_successors(kernel, int(source.ctypes.data), rows, actions) >= 0:
            return rows[successor * shape.stride : (successor + 1) * shape.stride]
        capacity *= 2
