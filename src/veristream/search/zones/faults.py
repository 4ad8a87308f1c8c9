"""Failures of timed models, and the runs to them.

A search only notes the node and the action at which something could not be evaluated. Here the interpreter
determines what that was, and the clock values for which it happens determine the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veristream.ir.clocks import Bound, count_clocks
from veristream.ir.expr import ClockValue
from veristream.ir.oracle.evaluate import ModelFault
from veristream.ir.oracle.timed import TimedInterpreter
from veristream.ir.show import show_timed
from veristream.ir.state import State
from veristream.kernel.zones import constrain
from veristream.search.zones.path import Finish, Walker
from veristream.search.zones.trace import Hop, TraceBuilder, zone_bounds
from veristream.search.zones.watch import Questions
from veristream.verdict import Fault, Step, Trace, Unknown

NO_ACTION = -1
"""In place of an action: the failure is in the state of the node itself."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failure, and the bounds on clocks under which it happens."""

    reason: str
    fault: Fault
    bounds: tuple[Bound, ...] = ()


@dataclass(frozen=True, slots=True)
class FaultExplainer:
    """Explains the failures of one search."""

    traces: TraceBuilder
    walker: Walker
    questions: Questions

    def explain(self, hops: Sequence[Hop], action: int) -> Unknown:
        """The verdict if the action, or the state itself, fails at the end of the path."""
        state = self.traces.state(hops[-1].row)
        for failure in self._failures(state, action):
            found = self.walker.walk(hops, self._happening(action, failure.bounds))
            if found is not None:
                gone, zone = found
                final = zone_bounds(zone, self.walker.shape.n)
                return Unknown(failure.reason, self.traces.build(gone, final), failure.fault)
        raise AssertionError(f"the interpreter knows no failure of action {action} in {state}")

    def _happening(self, action: int, bounds: Sequence[Bound]) -> Finish:
        """The part of a zone in which the action is possible, within the bounds."""
        walker, n = self.walker, self.walker.shape.n
        possible = walker.anywhere if action == NO_ACTION else walker.departing(action)

        def finish(row: int, zone: NDArray[np.int32]) -> Iterator[NDArray[np.int32]]:
            for piece in possible(row, zone):
                if all(
                    constrain(piece, n, one.left, one.right, 2 * one.limit + (not one.strict))
                    for one in bounds
                ):
                    yield piece

        return finish

    def _failures(self, state: State, action: int) -> Iterator[_Failure]:
        if action == NO_ACTION:
            yield from self._of_state(state, "")
            return
        expansion = self.traces.interpreter.untimed.expand(state)
        for failed in expansion.failures:
            if failed.action == action:
                reason = f"the action {failed.label} of {failed.process} fails: {failed.fault.message}"
                yield _Failure(reason, failed.fault, failed.clocks.bounds)
        for taken in expansion.steps:
            if taken.action == action:
                for failure in self._of_state(
                    taken.state, f"after the action {taken.label} of {taken.process} "
                ):
                    yield _Failure(failure.reason, failure.fault, taken.clocks.bounds)

    def _of_state(self, state: State, when: str) -> Iterator[_Failure]:
        """The conditions that cannot be evaluated in the state; `when` begins the message."""
        untimed = self.traces.interpreter.untimed
        what = "an invariant"
        try:
            untimed.invariant_bounds(state)
            what = "a property"
            for part in self.questions.parts:
                if untimed.holds(part.disjunct.condition, state):
                    for constraint in part.disjunct.clocks:
                        untimed.bounds(constraint, state)
            for measure in self.questions.measures:
                if not isinstance(measure.value, ClockValue):
                    untimed.value(measure.value, state)
        except ModelFault as found:
            reason = f"{when}{what} cannot be evaluated: {found.message}"
            yield _Failure(reason, Fault(found.message, found.span, what == "a property"))


def failure_at_start(interpreter: TimedInterpreter) -> Unknown | None:
    """The verdict if an invariant of the initial locations cannot be evaluated; None if all can."""
    try:
        interpreter.untimed.invariant_bounds(interpreter.untimed.initial())
    except ModelFault as found:
        clocks = (Fraction(0),) * (count_clocks(interpreter.network) + 1)
        shown = show_timed(interpreter.network, interpreter.untimed.initial(), clocks)
        reason = f"an invariant cannot be evaluated: {found.message}"
        return Unknown(reason, Trace((Step(None, None, shown, 0.0),)), Fault(found.message, found.span))
    return None
