"""Safety verdicts of random properties of random Networks, compared with the interpreter's whole graph."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.strategies import networks, properties
from veristream.ir.network import Network
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.property import (
    Always,
    DeadlockFree,
    NonTerminating,
    Property,
    Reachable,
    Transition,
)
from veristream.search.engine import Method, check, method_for
from veristream.search.limits import Limits, Order
from veristream.search.reach import explore as driver
from veristream.verdict import Holds, Result, Violated, word
from veristream_testing.states import Exploration, explore

STATE_COUNT_MAX = 1500
RANDOM = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
LIMITS = (Limits(workers=1), Limits(workers=2), Limits(order=Order.DEPTH), Limits(hash_bits=64))


@pytest.mark.parametrize("examples", [100, pytest.param(300, marks=pytest.mark.long)])
def test_safety_verdicts_agree(examples: int) -> None:
    settings(RANDOM, max_examples=examples)(given(st.data())(_compare_verdicts))()


def _compare_verdicts(data: st.DataObject) -> None:
    network = data.draw(networks(faults=False))
    wanted = data.draw(st.lists(properties(network), min_size=1, max_size=4))
    safety = [p for p in _renamed(wanted) if method_for(network, p) is Method.STATES]
    space = explore(network, STATE_COUNT_MAX)
    if not safety or len(space.states) >= STATE_COUNT_MAX:
        return
    assert not space.failures
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "WIDE", 2)
        for limits in LIMITS:
            for property_, result in zip(safety, check(network, safety, limits), strict=True):
                _compare(network, space, property_, result)


def _renamed(wanted: list[Property]) -> list[Property]:
    return [Property(f"p{i}", p.claim, p.fairness) for i, p in enumerate(wanted)]


def _compare(network: Network, space: Exploration, property_: Property, result: Result) -> None:
    expected = _expected(network, space, property_)
    assert word(result.verdict) == ("holds" if expected else "violated"), property_
    claim = property_.claim
    if isinstance(claim, Reachable) and claim.optimise is not None and expected:
        interpreter = Interpreter(network)
        goal = [s for s in space.states if interpreter.holds(claim.condition, s)]
        values = [interpreter.value(claim.optimise.value, s) for s in goal]
        best = min(values) if claim.optimise.direction == "min" else max(values)
        assert result.verdict.reason.partition(";")[0].endswith(f"= {best}")
    match result.verdict:
        case Violated(trace=trace) if not isinstance(claim, Reachable):
            assert trace is not None and (trace.shortest or result.effort.hash_bits is not None)
        case Holds(trace=trace) if isinstance(claim, Reachable):
            assert trace is not None


def _expected(network: Network, space: Exploration, property_: Property) -> bool:
    interpreter = Interpreter(network)
    match property_.claim:
        case DeadlockFree():
            return not space.deadlocks
        case NonTerminating():
            return not space.deadlocks and not space.terminated
        case Always(condition=condition):
            return all(interpreter.holds(condition, state) for state in space.states)
        case Reachable(condition=condition):
            return any(interpreter.holds(condition, state) for state in space.states)
        case Transition(condition=condition):
            return all(
                interpreter.holds_step(condition, state, step.state)
                for state in space.states
                for step in interpreter.steps(state)
            )
        case _:
            raise AssertionError("not a safety property")
