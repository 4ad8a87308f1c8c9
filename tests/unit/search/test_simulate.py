"""Random runs: with time, every step happens at its earliest moment, and no step is missed."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.strategies_timed import timed_networks
from veristream.errors import ModelError
from veristream.ir.network import Network
from veristream.ir.oracle.interpret import Taken
from veristream.ir.oracle.timed import TimedInterpreter, TimedState
from veristream.ir.show import show_timed
from veristream.ir.text.read import read_network
from veristream.search.simulate import earliest_steps, simulate
from veristream.source import Source
from veristream.verdict import Step

F = Fraction
HALF = F(1, 2)


def read(text: str) -> Network:
    return read_network(Source("m.net", f"network m {text}"))


def earliest(text: str) -> dict[str, Fraction]:
    """The delay of each action of the initial state."""
    interpreter = TimedInterpreter(read(f"timed {text}"))
    found = earliest_steps(interpreter, interpreter.initial())
    return {step.taken.label: delay for delay, step in found}


def told(text: str, steps: int, seed: int = 0) -> list[tuple[str | None, float | None]]:
    return [(step.action, step.delay) for step in simulate(read(text), seed, steps).steps]


@pytest.mark.parametrize(
    ("guard", "delay"),
    [
        ("", F(0)),
        ("clock x <= 2", F(0)),
        ("clock x >= 2", F(2)),
        ("clock x > 2", F(5, 2)),
        ("clock x == 3", F(3)),
        ("clock x > 2, x < 3", F(5, 2)),
        ("clock x > 0", HALF),
        ("clock x >= 1, y < 4", F(1)),
        ("clock x - y >= 0, x >= 1", F(1)),
    ],
)
def test_a_step_is_taken_as_early_as_it_can_be(guard: str, delay: Fraction) -> None:
    text = "clock x clock y component P {{ location a initial edge a -> a {{ action go {} }} }}"
    assert earliest(text.format(guard)) == {"go": delay}


@pytest.mark.parametrize("guard", ["clock x > 4", "clock x > 2, x < 2", "clock x - y > 0", "when false"])
def test_what_is_never_possible_is_not_waited_for(guard: str) -> None:
    text = (
        "clock x clock y component P {{ location a initial clock x <= 4 edge a -> a {{ action go {} }} }}"
    )
    assert earliest(text.format(guard)) == {}


def test_an_invariant_of_the_target_may_be_what_to_wait_for() -> None:
    text = """clock x component P {
        location a initial location b clock x >= 3 location c clock x <= 1
        edge a -> b { action late } edge a -> b { action at_once do { reset x := 4 } }
        edge a -> c { action early } }"""
    assert earliest(text) == {"at_once": 0, "early": 0, "late": 3}


def test_an_invariant_of_the_target_may_compare_with_a_clock_that_is_set() -> None:
    text = """clock x clock y component P {
        location a initial location b clock x - y >= 1 location c clock y - x > -2
        edge a -> b { action ahead do { reset y := 1 } }
        edge a -> c { action behind do { reset y := 0 } }
        edge a -> c { action behind_later clock x >= 2 do { reset y := 1 } } }"""
    assert earliest(text) == {"behind": 0, "ahead": 2, "behind_later": 2}


def test_what_a_priority_forbids_is_waited_for() -> None:
    text = """clock x channel high: broadcast priority 1
        component P { location a initial
          edge a -> a { action high clock x < 2 send high }
          edge a -> a { action plain } }"""
    assert earliest(text) == {"high": 0, "plain": 2}


def test_no_time_passes_where_it_is_urgent() -> None:
    text = """clock x component P { urgent location a initial
        edge a -> a { action now } edge a -> a { action later clock x > 0 } }"""
    assert earliest(text) == {"now": 0}


def test_a_half_is_preferred_and_left_only_where_it_must_be() -> None:
    """On entering b, y is half a unit ahead of x; `only` is possible for less than half a unit."""
    text = """timed clock x clock y component P {{
        location a initial location b location c
        edge a -> b {{ action come clock y > 0 do {{ reset x := 0 }} }}
        edge b -> c {{ action only clock x > 0, y {} 1 }} }}"""
    come = (None, 0.0), ("come", 0.5)
    assert told(text.format("<"), 2) == [*come, ("only", 0.25)]
    assert told(text.format("<="), 2) == [*come, ("only", 0.5)]


ONE_OR_TWO = """timed clock x component P {
    location a initial location b clock x < 5 location stuck clock x <= 2
    edge a -> b { action one clock x >= 1 }
    edge b -> b { action two clock x >= 4 do { reset x := 0 } }
    edge b -> stuck { action stop do { reset x := 0 } } }"""


def test_a_run_says_how_long_it_waited_and_what_clocks_show() -> None:
    network = read(ONE_OR_TWO)
    first, second, *_ = simulate(network, 0, 5).steps
    assert first == Step(None, None, {"P": "a", "x": 0}, 0.0)
    assert second == Step("one", "P", {"P": "b", "x": 1}, 1.0)
    labels = {label for seed in range(20) for label, _ in told(ONE_OR_TWO, 3, seed)}
    assert labels == {None, "one", "two", "stop"}


def test_a_run_ends_where_only_time_can_pass() -> None:
    runs = [told(ONE_OR_TWO, 30, seed) for seed in range(9)]
    assert all(run[-1][0] == "stop" and len(run) < 31 for run in runs)
    assert told("timed clock x component P { location a initial }", 5) == [(None, 0.0)]
    assert told("timed clock x component P { location a initial clock x <= 2 }", 5) == [(None, 0.0)]


def test_the_same_seed_gives_the_same_run() -> None:
    network = read(ONE_OR_TWO)
    assert simulate(network, 3, 20) == simulate(network, 3, 20)
    assert len({str(simulate(network, seed, 20)) for seed in range(9)}) > 1


def test_untimed_steps_have_no_delay() -> None:
    text = "var n: 0..9 component P { location a initial edge a -> a { action go do { n := n + 1 } } }"
    assert told(text, 3) == [(None, None), ("go", None), ("go", None), ("go", None)]
    assert len(simulate(read(text), 0, 30).steps) == 10


def test_a_clock_bound_that_fails_is_the_models_error() -> None:
    network = read("""timed clock x var n: 0..3 component P {
        location a initial location b clock x <= 3 div n
        edge a -> b { } }""")
    with pytest.raises(ModelError, match="division by zero"):
        simulate(network, 0, 3)


def walk_regions(interpreter: TimedInterpreter, now: TimedState) -> dict[Taken, TimedState]:
    """The first region in which each step is possible, by a moment in it, region after region."""
    found: dict[Taken, TimedState] = {}
    seen = set()
    moment: TimedState | None = now
    while moment is not None and interpreter.representative(moment) not in seen:
        seen.add(interpreter.representative(moment))
        for step in interpreter.steps(moment):
            found.setdefault(step.taken, moment)
        moment = interpreter.next_region(moment)
    return found


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(timed_networks(), st.lists(st.integers(0, 99), max_size=6))
def test_no_step_is_missed_or_taken_too_late(network: Network, choices: list[int]) -> None:
    interpreter = TimedInterpreter(network)
    now = interpreter.initial()
    for choice in choices:
        found = earliest_steps(interpreter, now)
        regions = walk_regions(interpreter, now)
        assert {step.taken for _, step in found} == regions.keys()
        for delay, step in found:
            moment = interpreter.delay(now, delay)
            assert moment is not None and step in interpreter.steps(moment)
            first = regions[step.taken]
            if interpreter.representative(moment) != interpreter.representative(first):
                # A later region than the first is used only to reach the next multiple of a half.
                waited = first.clocks[1] - now.clocks[1]
                assert delay == F(ceil(waited * 2), 2)
        if not found:
            return
        now = found[choice % len(found)][1].target


@settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
@given(timed_networks(), st.integers(0, 99))
def test_a_run_is_one_of_the_network(network: Network, seed: int) -> None:
    interpreter = TimedInterpreter(network)
    now = [interpreter.initial()]
    first, *steps = simulate(network, seed, 8).steps
    assert first == Step(None, None, show_timed(network, now[0].state, now[0].clocks), 0.0)
    for step in steps:
        assert step.delay is not None
        later = [interpreter.delay(one, F(step.delay)) for one in now]
        now = [
            taken.target
            for one in later
            if one is not None
            for taken in interpreter.steps(one)
            if (taken.taken.label, taken.taken.process) == (step.action, step.process)
            and show_timed(network, taken.target.state, taken.target.clocks) == step.state
        ]
        assert now
    if len(steps) < 8:
        assert any(interpreter.is_deadlocked(one) for one in now)
