"""Checks timed traces step by step, independently of the engine that produced them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from veristream.ir.clocks import list_clocks, number_clocks
from veristream.ir.expr import Expr, Reset
from veristream.ir.network import Network
from veristream.ir.oracle.timed import TimedInterpreter, TimedState
from veristream.ir.property import (
    Always,
    DeadlockFree,
    Inevitable,
    LeadsTo,
    PotentiallyAlways,
    Property,
    Reachable,
)
from veristream.ir.show import show_timed
from veristream.verdict import Holds, Shown, Step, Trace, Verdict, Violated
from veristream_testing.timed import TimedExploration

WAITS = "then time passes forever"
STUCK = "then no step is possible, now or after any delay"
CYCLES = "then the last steps repeat forever"


def follow(interpreter: TimedInterpreter, trace: Trace) -> list[TimedState]:
    """Every moment of the trace at which a condition could change: all regions along it."""
    network = interpreter.network
    now = interpreter.initial()
    moments = [now]
    assert trace.steps[0] == Step(None, None, show_timed(network, now.state, now.clocks), 0.0)
    for step in trace.steps[1:]:
        assert step.delay is not None
        moments += _wait(interpreter, moments[-1], Fraction(step.delay))
        if step.action is None:
            assert step is trace.steps[-1] and step.delay > 0
        else:
            moments.append(_take(interpreter, moments[-1], step))
        assert show_timed(network, moments[-1].state, moments[-1].clocks) == step.state
    return moments


def _wait(interpreter: TimedInterpreter, now: TimedState, delay: Fraction) -> Iterator[TimedState]:
    while delay:
        part = min(delay, interpreter.regions.until_next(now.clocks))
        later = interpreter.delay(now, part)
        assert later is not None, "time passes where it may not"
        yield later
        now, delay = later, delay - part


def _take(interpreter: TimedInterpreter, now: TimedState, step: Step) -> TimedState:
    for one in interpreter.steps(now):
        target = one.target
        shown = show_timed(interpreter.network, target.state, target.clocks)
        if (one.taken.label, one.taken.process, shown) == (step.action, step.process, step.state):
            return target
    raise AssertionError(f"no such step: {step}")


def check_clocks(network: Network, trace: Trace) -> None:
    """Asserts that every clock grows by the delay, unless an edge of a moving component may have set it."""
    clocks = list_clocks(network)[1:]
    for before, after in zip(trace.steps, trace.steps[1:], strict=False):
        may_be_set = _set_by(network, after.process)
        for clock in clocks:
            assert after.delay is not None
            grown = _number(before.state[clock]) + after.delay
            assert _number(after.state[clock]) == grown or clock in may_be_set, (clock, before, after)


def _set_by(network: Network, process: str | None) -> set[str]:
    """The clocks that the edges of the named components set."""
    movers = set(re.findall(r"\w+", process or ""))
    arrays = {name: clock.shape for name, clock in number_clocks(network).items()}
    names = {
        statement.clock.clock
        for component in network.components
        if component.name in movers
        for edge in component.edges
        for statement in edge.update
        if isinstance(statement, Reset)
    }
    return {clock for clock in list_clocks(network)[1:] if clock.split("[")[0] in names & arrays.keys()}


def _number(shown: Shown) -> float:
    assert isinstance(shown, int | float)
    return shown


def check_verdict(network: Network, property_: Property, verdict: Verdict) -> None:
    """Asserts that there is a trace exactly if the verdict needs one, and that it shows what it should."""
    claim = property_.claim
    trace = verdict.trace
    wants_trace = isinstance(verdict, Holds) == isinstance(claim, Reachable | PotentiallyAlways)
    assert (trace is not None) == wants_trace, (claim, verdict)
    if trace is None:
        return
    check_clocks(network, trace)
    interpreter = TimedInterpreter(replace(network, properties=(property_,)))
    moments = follow(interpreter, trace)
    match claim:
        case Reachable() | Always() | DeadlockFree():
            assert ends_well(interpreter, claim)(moments[-1])
        case Inevitable(condition=condition):
            assert not any(_where(interpreter, condition, moments))
            _check_ending(interpreter, condition, False, trace, moments, verdict)
        case PotentiallyAlways(condition=condition):
            assert all(_where(interpreter, condition, moments))
            _check_ending(interpreter, condition, True, trace, moments, verdict)
        case LeadsTo(cause=cause, effect=effect):
            effects = _where(interpreter, effect, moments)
            last = max((i for i, found in enumerate(effects) if found), default=-1)
            assert any(_where(interpreter, cause, moments[last + 1 :]))
            _check_ending(interpreter, effect, False, trace, moments, verdict)
        case _:
            raise AssertionError(claim)


def ends_well(
    interpreter: TimedInterpreter, claim: Reachable | Always | DeadlockFree
) -> Callable[[TimedState], bool]:
    """The condition on the last moment of a trace that decides the claim."""
    match claim:
        case Reachable(condition=condition):
            return lambda now: interpreter.holds(condition, now)
        case Always(condition=condition):
            return lambda now: not interpreter.holds(condition, now)
        case DeadlockFree():
            return lambda now: (
                interpreter.is_deadlocked(now) and not interpreter.untimed.is_terminated(now.state)
            )


def _where(interpreter: TimedInterpreter, condition: Expr, moments: Sequence[TimedState]) -> list[bool]:
    return [interpreter.holds(condition, now) for now in moments]


def _check_ending(
    interpreter: TimedInterpreter,
    condition: Expr,
    wanted: bool,
    trace: Trace,
    moments: list[TimedState],
    verdict: Holds | Violated | Verdict,
) -> None:
    """Checks how the run continues after the trace, with the condition as wanted forever."""
    if verdict.reason == CYCLES:
        assert trace.loop is not None and trace.loop < len(trace.steps) - 1
        assert any(step.action is not None for step in trace.steps[trace.loop + 1 :])
        clocks = set(list_clocks(interpreter.network))
        first, last = (
            {name: value for name, value in trace.steps[at].state.items() if name not in clocks}
            for at in (trace.loop, -1)
        )
        assert first == last
        return
    assert trace.loop is None
    now = interpreter.representative(moments[-1])
    seen: set[TimedState] = set()
    while now not in seen:
        seen.add(now)
        assert interpreter.holds(condition, now) == wanted
        assert verdict.reason == WAITS or not interpreter.steps(now)
        later = interpreter.next_region(now)
        if later is None:
            assert verdict.reason == STUCK
            return
        now = interpreter.representative(later)


def fewest_actions(found: TimedExploration, wanted: Callable[[TimedState], bool]) -> int | None:
    """The least number of actions to a wanted moment."""
    best = {0: 0}
    pending = deque([0])
    while pending:
        at = pending.popleft()
        delay = found.delays[at]
        if delay is not None and best[at] < best.get(delay, len(found.states)):
            best[delay] = best[at]
            pending.appendleft(delay)
        for target in found.steps[at]:
            if best[at] + 1 < best.get(target, len(found.states)):
                best[target] = best[at] + 1
                pending.append(target)
    return min((best[at] for at, now in enumerate(found.states) if wanted(now)), default=None)
