"""Random runs, for a first impression of a model.

In a timed network every step that is possible now or after some delay is equally likely, and is taken as
early as possible; the delay is a multiple of one half if that is possible. Time passes only up to the next
step, so no run waits until it is too late.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import floor
from random import Random

from veristream.errors import ModelError
from veristream.ir.clocks import Bound
from veristream.ir.network import Network
from veristream.ir.oracle.evaluate import ModelFault
from veristream.ir.oracle.interpret import Interpreter, Taken
from veristream.ir.oracle.regions import Valuation
from veristream.ir.oracle.timed import TimedInterpreter, TimedState, TimedStep
from veristream.ir.show import show_state, show_timed
from veristream.search.trace import first_step
from veristream.verdict import Step, Trace

HALF = Fraction(1, 2)


def simulate(network: Network, seed: int, step_count_max: int) -> Trace:
    """A run of at most `step_count_max` steps, chosen uniformly; the same seed gives the same run."""
    random = Random(seed)
    if network.timed:
        return _simulate_timed(network, random, step_count_max)
    interpreter = Interpreter(network)
    state = interpreter.initial()
    steps = [first_step(interpreter, state)]
    for _ in range(step_count_max):
        possible = interpreter.steps(state)
        if not possible:
            break
        taken = random.choice(possible)
        state = taken.state
        steps.append(Step(taken.label, taken.process, show_state(network, state)))
    return Trace(tuple(steps))


def _simulate_timed(network: Network, random: Random, step_count_max: int) -> Trace:
    interpreter = TimedInterpreter(network)
    now = interpreter.initial()
    steps = [Step(None, None, show_timed(network, now.state, now.clocks), 0.0)]
    for _ in range(step_count_max):
        try:
            possible = earliest_steps(interpreter, now)
        except ModelFault as fault:
            raise ModelError(fault.message, fault.span) from fault
        if not possible:
            break
        delay, step = random.choice(possible)
        now = step.target
        state = show_timed(network, now.state, now.clocks)
        steps.append(Step(step.taken.label, step.taken.process, state, float(delay)))
    return Trace(tuple(steps))


def earliest_steps(interpreter: TimedInterpreter, now: TimedState) -> list[tuple[Fraction, TimedStep]]:
    """Every step that is possible now or later, with its shortest delay; the delay is rounded up to a
    multiple of one half if the step is still possible then."""
    found: dict[Taken, tuple[Fraction, TimedStep]] = {}
    for delay in _moments(_turning_points(interpreter, now)):
        later = interpreter.delay(now, delay)
        if later is None:
            break
        for step in interpreter.steps(later):
            first, _ = found.setdefault(step.taken, (delay, step))
            if first.denominator > 2 >= delay.denominator and delay - first < HALF:
                found[step.taken] = (delay, step)
    return list(found.values())


def _turning_points(interpreter: TimedInterpreter, now: TimedState) -> list[Fraction]:
    """The delays, from 0 on, at which a bound of a step or of an invariant begins or ceases to hold."""
    untimed = interpreter.untimed
    points = {_turning_point(one, now.clocks, {}) for one in untimed.invariant_bounds(now.state)}
    for taken in untimed.steps(now.state):
        points |= {_turning_point(one, now.clocks, {}) for one in taken.clocks.bounds}
        after = untimed.invariant_bounds(taken.state)
        points |= {_turning_point(one, now.clocks, dict(taken.clocks.resets)) for one in after}
    return sorted({Fraction(0), *(point for point in points if point is not None and point > 0)})


def _turning_point(bound: Bound, clocks: Valuation, resets: Mapping[int, int]) -> Fraction | None:
    """The delay at which the two sides of the bound are equal, if clocks are set to these values then.

    None if the delay makes no difference, as for a difference of two clocks that both keep running.
    """
    fixed = {0: 0, **resets}
    left, right = fixed.get(bound.left), fixed.get(bound.right)
    if (left is None) == (right is None):
        return None
    if right is not None:
        return bound.limit + right - clocks[bound.left]
    assert left is not None
    return left - bound.limit - clocks[bound.right]


def _moments(points: Sequence[Fraction]) -> Iterator[Fraction]:
    """The points, and one moment between each and the next: only there do the possible steps change."""
    for point, following in zip(points, [*points[1:], None], strict=True):
        yield point
        yield _soon_after(point, following)


def _soon_after(point: Fraction, limit: Fraction | None) -> Fraction:
    """The first multiple of a half, else of a quarter, ..., after the point and before the limit."""
    unit = HALF
    while True:
        moment = (floor(point / unit) + 1) * unit
        if limit is None or moment < limit:
            return moment
        unit /= 2
