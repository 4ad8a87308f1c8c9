"""Timed networks with explicit clock values: the reference for zone searches; replays their traces.

`TimedInterpreter` follows items 5 to 7 of the semantics in `network` for one clock valuation at a time.
Whether a deadlock follows is decided on regions (see `regions`): time passes from each region to the next
without skipping one, so no moment of a delay is missed, also with strict bounds and clock differences.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from veristream.errors import ModelError
from veristream.ir.clocks import Bound, count_clocks
from veristream.ir.expr import Expr
from veristream.ir.network import Network
from veristream.ir.oracle.evaluate import Moment, satisfies
from veristream.ir.oracle.interpret import Expansion, Failed, Interpreter, Taken
from veristream.ir.oracle.regions import Valuation, regions_of
from veristream.ir.state import State


@dataclass(frozen=True, slots=True)
class TimedState:
    """A state and its clock values by number; clock 0 is always 0."""

    state: State
    clocks: Valuation


@dataclass(frozen=True, slots=True)
class TimedStep:
    """A step that the clocks allow, and the next state."""

    taken: Taken
    target: TimedState


class TimedInterpreter:
    """Expands the timed states of one network; caches what depends only on the state."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.untimed = Interpreter(network)
        self.regions = regions_of(network)
        self._expansions: dict[State, Expansion] = {}
        self._invariants: dict[State, tuple[Bound, ...]] = {}
        self._delays: dict[State, bool] = {}
        self._channels = {channel.name: channel for channel in network.channels}

    def initial(self) -> TimedState:
        """Returns the initial state; raises ModelError if it violates its clock invariants."""
        clocks = (Fraction(0),) * (count_clocks(self.network) + 1)
        start = TimedState(self.untimed.initial(), clocks)
        if not satisfies(clocks, self._invariant(start.state)):
            raise ModelError(
                "the initial state violates the clock invariants of its locations",
                self.network.span,
                "all clocks start at 0",
            )
        return start

    def steps(self, now: TimedState) -> list[TimedStep]:
        """Returns the steps that are possible at this moment."""
        found = [self._step(taken, now) for taken in self._expand(now.state).steps]
        steps = [step for step in found if step is not None]
        greatest = max((self._priority(step.taken) for step in steps), default=None)
        return [step for step in steps if self._priority(step.taken) == greatest]

    def failures(self, now: TimedState) -> list[Failed]:
        """Returns the actions that fault at this moment."""
        failures = self._expand(now.state).failures
        return [failed for failed in failures if satisfies(now.clocks, failed.clocks.bounds)]

    def delay(self, now: TimedState, duration: Fraction) -> TimedState | None:
        """Returns the state after the delay; None if time cannot pass for that long."""
        assert duration >= 0
        if duration == 0:
            return now
        clocks = (now.clocks[0], *(clock + duration for clock in now.clocks[1:]))
        # Invariants are convex: if they hold at both ends, they hold in between.
        if not self._may_delay(now.state) or not satisfies(clocks, self._invariant(now.state)):
            return None
        return TimedState(now.state, clocks)

    def next_region(self, now: TimedState) -> TimedState | None:
        """Returns a state in the next region; None if time cannot pass."""
        return self.delay(now, self.regions.until_next(now.clocks))

    def representative(self, now: TimedState) -> TimedState:
        """Returns the representative of all states with clocks in the same region."""
        return TimedState(now.state, self.regions.representative(now.clocks))

    def holds(self, condition: Expr, now: TimedState) -> bool:
        """Evaluates the condition at this moment; raises ModelFault."""
        moment = Moment(now.clocks, lambda: self.is_deadlocked(now))
        return self.untimed.holds(condition, now.state, moment)

    def is_deadlocked(self, now: TimedState) -> bool:
        """Returns whether no action is possible, now or after any delay."""
        seen: set[TimedState] = set()
        moment: TimedState | None = self.representative(now)
        while moment is not None and moment not in seen:
            if self.steps(moment):
                return False
            seen.add(moment)
            later = self.next_region(moment)
            moment = None if later is None else self.representative(later)
        return True

    def _step(self, taken: Taken, now: TimedState) -> TimedStep | None:
        if not satisfies(now.clocks, taken.clocks.bounds):
            return None
        clocks = list(now.clocks)
        for number, value in taken.clocks.resets:
            clocks[number] = Fraction(value)
        after = TimedState(taken.state, tuple(clocks))
        return TimedStep(taken, after) if satisfies(after.clocks, self._invariant(after.state)) else None

    def _priority(self, taken: Taken) -> tuple[int, int]:
        """Returns the priority of the channel and the highest priority of the movers."""
        leader, edge = taken.movers[0]
        sync = self.network.components[leader].edges[edge].sync
        own = 0 if sync is None else self._channels[sync.channel].priority
        return own, max(self.network.components[component].priority for component, _ in taken.movers)

    def _expand(self, state: State) -> Expansion:
        if state not in self._expansions:
            self._expansions[state] = self.untimed.expand(state)
        return self._expansions[state]

    def _invariant(self, state: State) -> tuple[Bound, ...]:
        if state not in self._invariants:
            self._invariants[state] = self.untimed.invariant_bounds(state)
        return self._invariants[state]

    def _may_delay(self, state: State) -> bool:
        if state not in self._delays:
            self._delays[state] = self.untimed.may_delay(state)
        return self._delays[state]
