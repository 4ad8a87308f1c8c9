"""Explores every reachable region of a timed network: the oracle for zone searches.

`explore_timed` lets time pass from each region to the next without skipping one, so it tests conditions at
every moment of a delay. It is slow, and exact also for strict bounds and clock differences.

A run of regions corresponds to a run of the network: it continues forever by steps or by delays (once no
clock matters, the next region is the same one), or ends where no step is possible and time cannot leave the
region. The latter includes a region that an invariant such as `x < 3` bounds although time never stops in
it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from veristream.ir.expr import Expr, Unary
from veristream.ir.network import Network
from veristream.ir.oracle.interpret import Failed
from veristream.ir.oracle.timed import TimedInterpreter, TimedState
from veristream.ir.property import (
    Always,
    Claim,
    DeadlockFree,
    Deterministic,
    DivergenceFree,
    Inevitable,
    LeadsTo,
    NonTerminating,
    PotentiallyAlways,
    Reachable,
    Refines,
    Temporal,
    Transition,
)


@dataclass(frozen=True, slots=True)
class TimedExploration:
    """The reachable regions, one timed state for each, and the transitions between them.

    `steps` and `delays` hold the positions of the successors by an action and by time, if it can pass;
    `failures` are the actions that faulted. Only a `complete` exploration decides claims.
    """

    interpreter: TimedInterpreter
    states: list[TimedState]
    steps: list[list[int]]
    delays: list[int | None]
    failures: list[tuple[TimedState, Failed]]
    complete: bool

    def decide(self, claim: Claim) -> bool:
        """Returns whether the claim is true; does not compute an optimum."""
        assert self.complete and not self.failures
        match claim:
            case Always(condition=condition):
                return all(self._where(condition))
            case Reachable(condition=condition):
                return any(self._where(condition))
            case DeadlockFree():
                return not any(map(self._is_stuck, self.states))
            case PotentiallyAlways(condition=condition):
                return self._globally(condition)[0]
            case Inevitable(condition=condition):
                return not self._globally(Unary("not", condition))[0]
            case LeadsTo(cause=cause, effect=effect):
                never = self._globally(Unary("not", effect))
                return not any(a and b for a, b in zip(self._where(cause), never, strict=True))
            case (
                Temporal()
                | Refines()
                | Deterministic()
                | DivergenceFree()
                | NonTerminating()
                | Transition()
            ):
                raise AssertionError(f"not a claim about a timed network: {claim}")
            case _:
                assert_never(claim)

    def _where(self, condition: Expr) -> list[bool]:
        return [self.interpreter.holds(condition, state) for state in self.states]

    def _is_stuck(self, now: TimedState) -> bool:
        return self.interpreter.is_deadlocked(now) and not self.interpreter.untimed.is_terminated(now.state)

    def _following(self, position: int) -> list[int]:
        delay = self.delays[position]
        return self.steps[position] + ([] if delay is None else [delay])

    def _globally(self, condition: Expr) -> list[bool]:
        """Returns, for each state, whether the condition holds at every moment of some maximal run from it.

        Computes the greatest fixed point: repeatedly removes states that have successors, but none among
        the remaining states.
        """
        left = self._where(condition)
        before: list[list[int]] = [[] for _ in self.states]
        for position in range(len(self.states)):
            for other in self._following(position):
                before[other].append(position)
        pending = list(range(len(self.states)))
        while pending:
            position = pending.pop()
            following = self._following(position)
            if left[position] and following and not any(left[other] for other in following):
                left[position] = False
                pending += before[position]
        return left


def explore_timed(network: Network, count_max: int) -> TimedExploration:
    """Explores the reachable regions breadth first, up to the limit."""
    interpreter = TimedInterpreter(network)
    start = interpreter.representative(interpreter.initial())
    found = TimedExploration(interpreter, [start], [], [], [], True)
    positions = {start: 0}

    def visit(now: TimedState) -> int:
        seen = interpreter.representative(now)
        if seen not in positions:
            positions[seen] = len(found.states)
            found.states.append(seen)
        return positions[seen]

    while len(found.steps) < len(found.states):
        now = found.states[len(found.steps)]
        if len(found.states) > count_max:
            return replace(found, complete=False)
        found.failures.extend((now, failed) for failed in interpreter.failures(now))
        later = interpreter.next_region(now)
        found.steps.append([visit(step.target) for step in interpreter.steps(now)])
        found.delays.append(None if later is None else visit(later))
    return found
