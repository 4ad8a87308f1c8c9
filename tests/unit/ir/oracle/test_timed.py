"""Timed networks with explicit clock values: derived by hand, and against other explorations of time."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.strategies_timed import timed_networks, timed_properties
from tests.timed_oracle import oracle_verdict
from veristream.errors import ModelError
from veristream.ir.clocks import count_clocks
from veristream.ir.network import Network
from veristream.ir.oracle.regions import Regions, Valuation, regions_of
from veristream.ir.oracle.timed import TimedInterpreter, TimedState
from veristream.ir.property import Always, Property, Reachable
from veristream.ir.state import State
from veristream.ir.text.read import read_network
from veristream.source import Source
from veristream_testing.timed import TimedExploration, explore_timed

F = Fraction
SMALL = settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))


def read(text: str) -> Network:
    return read_network(Source("m.net", f"network m timed {text}"))


def shown(*clocks: int | Fraction) -> Valuation:
    """Returns the clock values after the constant zero."""
    return (F(0), *map(F, clocks))


def verdict(text: str, claim: str) -> bool:
    network = read(f"{text} property p: {claim}")
    return oracle_verdict(network, network.properties[0])


# Single moments.

LAMP = """
clock x clock y
channel press: rendezvous
component Lamp {
  location off initial
  location low clock x <= 5
  location bright clock x < 5
  edge off -> low { receive press do { reset x := 0 } }
  edge low -> bright { clock x < 2 receive press }
  edge low -> off { clock x >= 2, y - x == 3 receive press do { reset y := 1 } }
}
component User { location idle initial edge idle -> idle { send press } }
"""


def test_steps_at_a_moment() -> None:
    lamp = TimedInterpreter(read(LAMP))
    start = lamp.initial()
    assert start.clocks == shown(0, 0)
    later = lamp.delay(start, F(3))
    assert later is not None and later.clocks == shown(3, 3)
    (step,) = lamp.steps(later)
    assert (step.target.state.locations, step.target.clocks) == ((1, 0), shown(0, 3))
    after_two = lamp.delay(step.target, F(2))
    assert after_two is not None
    assert [s.target.state.locations for s in lamp.steps(after_two)] == [(0, 0)]
    assert [s.target.clocks for s in lamp.steps(after_two)] == [shown(2, 1)]
    before_two = lamp.delay(step.target, F(19, 10))
    assert before_two is not None
    assert [s.target.state.locations for s in lamp.steps(before_two)] == [(2, 0)]


def test_time_passes_as_invariants_allow() -> None:
    lamp = TimedInterpreter(read(LAMP))
    low = TimedState(State((), (), (1, 0)), shown(1, 0))
    bright = TimedState(State((), (), (2, 0)), shown(1, 0))
    assert lamp.delay(low, F(4)) == TimedState(low.state, shown(5, 4))
    assert lamp.delay(low, F(41, 10)) is None
    assert lamp.delay(bright, F(4)) is None
    assert lamp.delay(bright, F(39, 10)) == TimedState(bright.state, shown(F(49, 10), F(39, 10)))
    assert lamp.delay(bright, F(0)) == bright


def test_a_target_invariant_must_hold_after_the_reset() -> None:
    text = """clock x clock y component P {
        location a initial location b clock x < 1
        edge a -> b { action stay } edge a -> b { action back do { reset x := 0 } }
        edge a -> b { action ahead do { reset x := 1 } } }"""
    timed = TimedInterpreter(read(text))
    labels = {
        duration: [step.taken.label for step in timed.steps(moment)]
        for duration in (F(0), F(1, 2), F(1))
        if (moment := timed.delay(timed.initial(), duration)) is not None
    }
    assert labels == {F(0): ["stay", "back"], F(1, 2): ["stay", "back"], F(1): ["back"]}


def test_no_time_passes_where_it_is_urgent() -> None:
    text = "clock x component P {{ {} location a initial }}"
    for kind in ("urgent", "committed"):
        timed = TimedInterpreter(read(text.format(kind)))
        assert timed.delay(timed.initial(), F(1, 2)) is None
        assert timed.delay(timed.initial(), F(0)) == timed.initial()
    assert oracle_verdict_of_urgent_channel("") == (False, True)
    assert oracle_verdict_of_urgent_channel("when n > 0") == (True, False)


def oracle_verdict_of_urgent_channel(guard: str) -> tuple[bool, bool]:
    """Whether the clock can pass 0 at the start, and whether the step is inevitable."""
    text = f"""clock x var n: 0..1 urgent channel c: rendezvous
        component P {{ location a initial location b edge a -> b {{ send c {guard} }} }}
        component Q {{ location a initial edge a -> a {{ receive c }} }}"""
    return verdict(text, "reachable P@a and clock(x > 0)"), verdict(text, "inevitable P@b")


def test_priorities_at_a_moment() -> None:
    text = """clock x var n: 0..1
        channel high: broadcast priority 2
        channel low: broadcast priority -1
        component P {
          location a initial location b clock x <= 4
          edge a -> a { action plain }
          edge a -> b { action high clock x >= 1 send high }
          edge a -> a { action low send low }
          edge a -> a { action lower send low when n > 0 }
        }"""
    timed = TimedInterpreter(read(text))
    labels = []
    for duration in (F(0), F(1), F(4), F(5)):
        moment = timed.delay(timed.initial(), duration)
        assert moment is not None
        labels.append([step.taken.label for step in timed.steps(moment)])
    # At 5 the step to b would violate its invariant, so it blocks no other step.
    assert labels == [["plain"], ["high"], ["high"], ["plain"]]


def test_priorities_of_components_come_after_those_of_channels() -> None:
    text = """channel c: rendezvous channel d: rendezvous priority 1
        component P priority 1 {
          location a initial edge a -> a { action mine } edge a -> a { action ours send c }
        }
        component Q { location a initial edge a -> a { action yours } edge a -> a { receive c } }
        component R { location a initial edge a -> a { action theirs send d } }
        component S { location a initial edge a -> a { receive d when 0 } }"""
    timed = TimedInterpreter(read(text))
    assert [step.taken.label for step in timed.steps(timed.initial())] == ["mine", "ours"]
    timed = TimedInterpreter(read(text.replace("when 0", "")))
    assert [step.taken.label for step in timed.steps(timed.initial())] == ["theirs"]


def test_failures_happen_when_the_clocks_allow() -> None:
    network = read("""clock x var n: 0..1
        component P { location a initial edge a -> a { clock x > 2 do { n := n + 2 } } }""")
    timed = TimedInterpreter(network)
    moments = [timed.delay(timed.initial(), F(2)), timed.delay(timed.initial(), F(5, 2))]
    assert [len(timed.failures(moment)) for moment in moments if moment is not None] == [0, 1]
    assert [failed.fault.message for _, failed in explore_timed(network, 100).failures] == [
        "2 is outside the range 0..1 of n"
    ]


def test_the_initial_invariants_must_hold() -> None:
    with pytest.raises(ModelError, match="violates the clock invariants"):
        TimedInterpreter(read("clock x component P { location a initial clock x >= 1 }")).initial()


def test_an_exploration_can_be_cut_short() -> None:
    network = read("clock x component P { location a initial clock x <= 9 }")
    assert len(explore_timed(network, 19).states) == 19  # 0, between 0 and 1, 1, ..., 9
    assert explore_timed(network, 19).complete
    assert not explore_timed(network, 18).complete


# Claims, by hand.

SQUEEZE = """clock x clock y var n: 0..4
    component P { location a initial edge a -> a {
      clock x > 0, y < 1 when n < 4 do { n := n + 1; reset x := 0 } } }"""
STAY = "clock x component P {{ location a initial {} }}"
AGAIN = "edge b -> a { do { reset x := 0 } }"
AVOID = "potentially not clock(x == 1)"
LEAVE = "clock x component P {{ location a initial {} location b edge a -> b {{ {} }} {} }}"


@pytest.mark.parametrize(
    ("text", "claim", "expected"),
    [
        # Any number of rounds that each take time fit into one unit.
        (SQUEEZE, "reachable n == 4 and clock(y < 1)", True),
        (SQUEEZE, "reachable n > 0 and clock(y <= 0)", False),
        (SQUEEZE.replace("x > 0", "x >= 1"), "reachable n == 1", False),
        (SQUEEZE.replace("y < 1", "y <= 1").replace("x > 0", "x >= 1"), "reachable n == 1", True),
        (SQUEEZE.replace("y < 1", "y <= 1").replace("x > 0", "x >= 1"), "reachable n == 2", False),
        # Invariants.
        (STAY.format("clock x <= 5"), "reachable clock(x == 5)", True),
        (STAY.format("clock x <= 5"), "reachable clock(x > 5)", False),
        (STAY.format("clock x < 5"), "reachable clock(x == 5)", False),
        (STAY.format("clock x < 5"), "reachable clock(x > 4)", True),
        (STAY.format(""), "always clock(x >= 0)", True),
        # States with only delays, or nothing: runs that end, and runs that do not.
        (STAY.format("clock x <= 2"), "always deadlock", True),
        (STAY.format("clock x <= 2"), "deadlockfree", False),
        (STAY.format("final clock x <= 2"), "deadlockfree", True),
        (STAY.format("clock x <= 2"), "inevitable clock(x >= 2)", True),
        (STAY.format("clock x <= 2"), "potentially clock(x < 2)", False),
        (STAY.format("clock x <= 2"), "potentially clock(x <= 2)", True),
        (STAY.format("clock x < 2"), "inevitable clock(x >= 2)", False),
        (STAY.format("clock x < 2"), "inevitable clock(x > 1)", True),
        (STAY.format(""), "inevitable clock(x == 7)", True),
        (STAY.format(""), AVOID, False),
        (STAY.format(""), "clock(x == 1) leadsto clock(x > 3)", True),
        (STAY.format(""), "clock(x == 1) leadsto clock(x < 1)", False),
        ("component P { location a initial }", "potentially P@a", True),
        ("component P { urgent location a initial }", "inevitable not P@a", False),
        # An edge need not be taken, unless an invariant requires it.
        (LEAVE.format("", "", ""), "inevitable P@b", False),
        (LEAVE.format("clock x <= 3", "", ""), "inevitable P@b", True),
        (LEAVE.format("clock x < 3", "", ""), "inevitable P@b", True),
        (LEAVE.format("clock x <= 3", "clock x < 2", ""), "inevitable P@b", False),
        (LEAVE.format("clock x <= 3", "clock x >= 3", ""), "inevitable P@b", True),
        (LEAVE.format("clock x < 3", "clock x >= 3", ""), "reachable P@b", False),
        (LEAVE.format("clock x <= 3", "clock x < 2", ""), "reachable P@a and deadlock", True),
        (
            LEAVE.format("clock x <= 3", "clock x < 2", ""),
            "always deadlock implies P@b or clock(x >= 2)",
            True,
        ),
        (
            LEAVE.format("clock x <= 3", "clock x < 2", ""),
            "reachable deadlock and clock(x < 2) and P@a",
            False,
        ),
        (LEAVE.format("clock x <= 3", "clock x > 2", ""), "reachable deadlock and P@a", False),
        (LEAVE.format("clock x <= 3", "", ""), "potentially P@a", False),
        (LEAVE.format("clock x <= 3", "", ""), "P@a leadsto P@b", True),
        (LEAVE.format("", "", ""), "P@a leadsto P@b", False),
        # A run can take infinitely many steps in zero time.
        (LEAVE.format("clock x <= 3", "", "edge a -> a"), "inevitable P@b", False),
        (LEAVE.format("clock x <= 3", "", "edge a -> a"), "inevitable clock(x > 0)", False),
        (LEAVE.format("clock x <= 3", "", "edge a -> a { clock x > 3 }"), "inevitable P@b", True),
        (LEAVE.format("clock x <= 3", "", AGAIN), "inevitable clock(x > 2)", False),
        (LEAVE.format("clock x <= 3", "clock x >= 3", AGAIN), "P@a leadsto P@b", True),
        # Time does not skip a moment; a reset can avoid it.
        (STAY.format("edge a -> a { clock x < 1 do { reset x := 0 } }"), AVOID, True),
        (STAY.format("edge a -> a { clock x > 1 do { reset x := 0 } }"), AVOID, False),
        (STAY.format("edge a -> a { clock x < 1 do { reset x := 2 } }"), AVOID, True),
    ],
)
def test_claims(text: str, claim: str, expected: bool) -> None:
    assert verdict(text, claim) is expected


APART = """clock x clock y var n: 0..1
    component P {
      location a initial location b
      edge a -> a { clock x == 2 when n == 0 do { n := 1; reset y := 0 } }
      edge a -> b { clock y > 100, x - y == 2 } }"""


@pytest.mark.parametrize(
    ("text", "claim", "expected"),
    [
        # A difference between clocks persists for any length of time.
        (APART, "reachable P@b", True),
        (APART, "always P@b implies n", True),
        (APART.replace("x - y == 2", "x - y > 2"), "reachable P@b", False),
        (APART.replace("x - y == 2", "x - y < 2"), "always P@b implies n == 0", True),
        (APART, "reachable clock(x - y == 1)", False),
        (APART, "reachable clock(y - x == 0) and clock(x > 3)", True),
        (APART.replace("x == 2", "x > 1, x < 2"), "reachable clock(x - y > 1) and clock(y - x > -2)", True),
        (APART.replace("x == 2", "x > 1, x < 2"), "reachable clock(x - y >= 2)", False),
        # A clock that is set to a value stays ahead of the other clock by that value.
        (APART.replace("y := 0", "y := 7"), "reachable clock(y - x == 5)", True),
        (APART.replace("y := 0", "y := 7"), "reachable clock(y - x > 5)", False),
    ],
)
def test_differences(text: str, claim: str, expected: bool) -> None:
    assert verdict(text.replace("100", "4"), claim) is expected


def test_committed_locations_and_broadcasts() -> None:
    text = """clock x clock y channel c: broadcast
        component P { location a initial committed location b location d
          edge a -> b { clock x > 1 send c } edge b -> d { do { reset y := 1 } } }
        component Q { location a initial location b
          edge a -> b { receive c } edge b -> a { do { reset x := 0 } } }"""
    assert not verdict(text, "reachable P@b and Q@a")
    assert verdict(text, "always P@b implies clock(x > 1) and clock(x - y == 0)")
    assert verdict(text, "P@b leadsto P@d")
    assert not verdict(text, "Q@b leadsto Q@a")
    assert verdict(text, "reachable P@d and Q@a and clock(y - x == 1)")


# Regions.


def test_the_representative_of_a_region() -> None:
    regions = Regions(3, 5, frozenset())
    assert regions.representative(shown(F(1, 10), F(29, 10), 2)) == shown(F(1, 3), F(8, 3), 2)
    assert regions.representative(shown(F(7, 2), 3, F(29, 10))) == shown(4, 3, F(5, 2))
    linked = Regions(3, 5, frozenset({1, 2}))
    # 9.5 is beyond 5, and 30.25 more than 3 above it; x3 is not linked.
    assert linked.representative(shown(F(19, 2), F(121, 4), 9)) == shown(F(17, 3), F(28, 3), 4)


_sevenths = st.integers(0, 100).map(lambda number: F(number, 7))


@given(st.tuples(_sevenths, _sevenths, _sevenths), st.integers(1, 3), st.integers(0, 3))
def test_regions_are_closed_under_resets_and_delays(
    clocks: tuple[Fraction, ...], number: int, value: int
) -> None:
    """A step from a valuation and one from its representative lead into the same region."""
    regions = Regions(2, 5, frozenset({1, 2, 3}))
    there = regions.representative(shown(*clocks))

    def after(now: Valuation) -> Valuation:
        return regions.representative((*now[:number], F(value), *now[number + 1 :]))

    assert regions.representative(there) == there
    assert after(shown(*clocks)) == after(there)
    ahead = shown(*(clock + 1 for clock in clocks))  # whole units keep the order of the fractions
    assert regions.representative(ahead) == regions.representative(
        shown(*(clock + 1 for clock in there[1:]))
    )


def test_a_reset_leads_into_the_same_region_from_a_representative() -> None:
    regions = Regions(1, 2, frozenset({1, 2, 3}))
    assert regions.representative(shown(F(32, 7), F(39, 7), F(32, 7))) == shown(F(5, 2), F(7, 2), F(5, 2))
    assert regions.representative(shown(1, 0, F(32, 7))) == shown(1, 0, F(5, 2))
    assert regions.representative(shown(1, 0, F(5, 2))) == shown(1, 0, F(5, 2))


def test_how_long_a_region_lasts() -> None:
    regions = Regions(3, 5, frozenset())
    assert regions.until_next(shown(2, F(1, 4))) == F(3, 8)
    assert regions.until_next(shown(F(1, 2), F(1, 4))) == F(1, 2)
    assert regions.until_next(shown(F(7, 2), 3)) == F(1, 2)
    assert regions.until_next(shown(F(7, 2), 4)) == 1


def test_the_constants_of_a_network() -> None:
    network = read("""clock x clock y[2] clock z
        function f(k: 0..6): bool { reset z := k; return true }
        component P { location a initial clock x <= 2
          edge a -> a { select s: 0..3 clock y[0] - x >= -s do { f(1) } } }
        property p: always clock(z < 1)""")
    assert regions_of(network) == Regions(3, 9, frozenset({1, 2, 3}))


# Against other explorations of time.


def walk_digitally(network: Network) -> set[State]:
    """Returns the states reached when time passes in whole units, which suffices if all bounds are closed
    (Henzinger, Manna, Pnueli, "What good are digital clocks?", 1992)."""
    timed = TimedInterpreter(network)
    ceiling = F(timed.regions.ceiling + 1)
    seen, pending = {timed.initial()}, [timed.initial()]
    while pending:
        now = pending.pop()
        following = [step.target for step in timed.steps(now)]
        later = timed.delay(now, F(1))
        following += [] if later is None else [later]
        for after in following:
            capped = replace(after, clocks=tuple(min(clock, ceiling) for clock in after.clocks))
            if capped not in seen:
                seen.add(capped)
                pending.append(capped)
    return {now.state for now in seen}


def explore_all(network: Network) -> TimedExploration:
    found = explore_timed(network, 1000)
    assume(found.complete)
    return found


@SMALL
@given(timed_networks(closed=True, priorities=False))
def test_closed_networks_reach_what_whole_units_do(network: Network) -> None:
    assume(not regions_of(network).linked)  # capping both clocks loses their difference
    found = explore_all(network)
    assert {now.state for now in found.states} == walk_digitally(network)


@SMALL
@given(st.data())
def test_finer_regions_change_no_verdict(data: st.DataObject) -> None:
    network = data.draw(timed_networks())
    claim = data.draw(timed_properties(network))
    network = replace(network, properties=(claim,))
    coarse = explore_all(network)

    def finer(network: Network) -> Regions:
        found = regions_of(network)
        every = frozenset(range(1, count_clocks(network) + 1))
        return Regions(found.ceiling + 1, found.horizon + 2, every)

    with patch("veristream.ir.oracle.timed.regions_of", finer):
        fine = explore_all(network)
    assert {now.state for now in fine.states} == {now.state for now in coarse.states}
    assert fine.decide(claim.claim) is coarse.decide(claim.claim)


@SMALL
@given(st.data())
def test_runs_stay_within_the_regions_found(data: st.DataObject) -> None:
    """Every state of a random run with odd delays is in the exploration, with the same enabled steps."""
    network = data.draw(timed_networks())
    claim = data.draw(timed_properties(network)).claim
    network = replace(network, properties=(Property("p", claim),))
    found = explore_all(network)
    timed, known = found.interpreter, set(found.states)
    now = timed.initial()
    for _ in range(12):
        there = timed.representative(now)
        assert there in known
        steps = timed.steps(now)
        assert [step.taken for step in steps] == [step.taken for step in timed.steps(there)]
        if isinstance(claim, Always | Reachable):
            assert timed.holds(claim.condition, now) is timed.holds(claim.condition, there)
        later = timed.delay(now, F(data.draw(st.integers(1, 25)), 7))
        following = [step.target for step in steps] + ([] if later is None else [later])
        if not following:
            break
        now = data.draw(st.sampled_from(following))
