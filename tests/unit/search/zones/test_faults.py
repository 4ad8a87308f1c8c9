"""Faults of timed models: reported with the run to them, and only if clock values allow them."""

from __future__ import annotations

import pytest

from tests.unit.search.zones.timed_texts import verdict_of
from veristream.verdict import Holds, Unknown, Violated

CLAIMS = [
    "always n <= 2",
    "reachable n == 2",
    "always clock(x <= 100)",
    "deadlockfree",
    "inevitable n == 2",
    "potentially n <= 1 and clock(x <= 100)",
    "n == 0 leadsto n == 2",
]
HEAD = "clock x\nvar n: 0..2 = 0\nvar a[2]: 0..2 = 0\n"


def failure(text: str, claim: str) -> tuple[str, list[tuple[str | None, float | None]]]:
    """The reason of `Unknown`, and the run: actions and delays."""
    found = verdict_of(HEAD + text, claim)
    assert isinstance(found, Unknown), found
    assert found.fault is not None and found.trace is not None
    assert found.fault.span.source.name == "m.net"
    assert found.reason.endswith(found.fault.message)
    return found.reason, [(step.action, step.delay) for step in found.trace.steps]


def component(*edges: str, invariant: str = "x <= 3") -> str:
    return f"component P {{ location s initial clock {invariant} location q {' '.join(edges)} }}"


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize(
    ("update", "message"),
    [
        ("n := 1 div n", "division by zero"),
        ("n := a[n + 2]", "index 2 is outside 0..1 of a"),
        ("n := n + 3", "3 is outside the range 0..2 of n"),
        ("n := n - 1", "-1 is outside the range 0..2 of n"),
        ("reset x := n - 1", "the clock x cannot be set to -1"),
    ],
)
def test_an_update_that_fails_as_soon_as_its_guard_allows(claim: str, update: str, message: str) -> None:
    text = component(f"edge s -> s {{ action t clock x >= 2 do {{ {update} }} }}")
    assert failure(text, claim) == (f"the action t of P fails: {message}", [(None, 0.0), (None, 2.0)])


def test_an_update_behind_a_guard_that_clocks_never_satisfy_is_no_fault() -> None:
    text = HEAD + component(
        "edge s -> s { action t clock x > 3 do { n := 1 div n } }",
        "edge s -> s { action u clock x == 3 do { reset x := 0 } }",
    )
    wanted = {
        "always n <= 2": Holds,
        "reachable n == 2": Violated,
        "deadlockfree": Holds,
        "inevitable n == 2": Violated,
        "potentially n <= 1": Holds,
        "n == 0 leadsto n == 2": Violated,
    }
    for claim, kind in wanted.items():
        assert isinstance(verdict_of(text, claim), kind), claim


def test_a_run_that_goes_on_for_ever_is_found_beside_a_fault() -> None:
    # Waiting in q forever is a run, although something fails in s.
    text = HEAD + component("edge s -> q", "edge q -> s { clock x > 3 do { n := 1 div n } }")
    found = verdict_of(text, "inevitable n == 2")
    assert isinstance(found, Violated) and found.reason == "then time passes forever"


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_guard_that_fails(claim: str) -> None:
    text = component("edge s -> s { action t when 1 div n == 0 clock x > 3 }")
    assert failure(text, claim) == ("the action t of P fails: division by zero", [(None, 0.0)])


@pytest.mark.parametrize("claim", CLAIMS)
def test_an_invariant_that_fails_where_a_step_leads(claim: str) -> None:
    text = component("edge s -> q { action t clock x >= 2 }").replace(
        "location q", "location q clock x <= 4 div n"
    )
    reason = "after the action t of P an invariant cannot be evaluated: division by zero"
    assert failure(text, claim) == (reason, [(None, 0.0), (None, 2.0)])
    never = HEAD + text.replace("x >= 2", "x > 3")
    assert not isinstance(verdict_of(never, claim), Unknown)


@pytest.mark.parametrize("claim", CLAIMS)
def test_an_invariant_that_fails_at_once(claim: str) -> None:
    text = component("edge s -> s { action t clock x >= 2 }", invariant="x <= 4 div n")
    assert failure(text, claim) == ("an invariant cannot be evaluated: division by zero", [(None, 0.0)])


COUNT = component(
    "edge s -> s { action t clock x == 2 do { n := (n + 1) mod 3; reset x := 0 } }", invariant="x <= 2"
)
ARRIVED = [(None, 0.0), ("t", 2.0), ("t", 2.0)]
BEFORE = [(None, 0.0), ("t", 2.0), (None, 2.0)]


@pytest.mark.parametrize(
    "claim",
    [
        "always 1 div (2 - n) <= 3",
        "reachable 1 div (2 - n) == 3",
        "always clock(x <= 4 div (2 - n))",
        "reachable clock(x > 4 div (2 - n))",
        "reachable true maximise 4 div (2 - n)",
        "1 div (2 - n) == 3 leadsto n == 0",
        "clock(x > 4 div (2 - n)) leadsto n == 0",
    ],
)
def test_a_property_that_fails_in_a_state(claim: str) -> None:
    assert failure(COUNT, claim) == ("a property cannot be evaluated: division by zero", ARRIVED)


@pytest.mark.parametrize(
    "claim",
    [
        "inevitable n == 3 div (2 - n)",
        "inevitable clock(x > 4 div (2 - n))",
        "potentially 4 div (2 - n) >= 0",
        "potentially clock(x <= 4 div (2 - n))",
        "n == 0 leadsto clock(x > 4 div (2 - n))",
    ],
)
def test_a_property_that_fails_on_a_run(claim: str) -> None:
    reason = "after the action t of P a property cannot be evaluated: division by zero"
    assert failure(COUNT, claim) == (reason, BEFORE)


@pytest.mark.parametrize("claim", ["inevitable 1 div n == 5", "potentially clock(x <= 4 div n)"])
def test_a_property_that_fails_at_once(claim: str) -> None:
    assert failure(COUNT, claim) == ("a property cannot be evaluated: division by zero", [(None, 0.0)])


def test_a_property_whose_left_side_decides_does_not_fail() -> None:
    text = HEAD + component("edge s -> s { action t clock x >= 3 do { reset x := 0 } }")
    guarded = "n != 0 and clock(x > 1) and 4 div n > 1"
    assert isinstance(verdict_of(text, f"always {guarded}"), Violated)
    assert isinstance(verdict_of(text, f"inevitable {guarded}"), Violated)
    assert isinstance(verdict_of(text, f"always not ({guarded})"), Holds)
    assert isinstance(verdict_of(text, "always n == 0 or clock(x > 4 div n)"), Holds)


def test_a_property_that_would_fail_in_a_state_that_an_invariant_forbids() -> None:
    text = COUNT.replace("x <= 2", "x <= 3 - n, x >= n").replace("n := (n + 1) mod 3", "n := 1")
    for claim in ("inevitable 3 div (1 - n) == 0", "always 3 div (1 - n) > 0"):
        assert not isinstance(verdict_of(HEAD + text, claim), Unknown), claim


def test_a_step_of_greater_priority_keeps_another_from_failing() -> None:
    text = """
    channel c: rendezvous priority 1
    component P {
      location s initial  location q
      edge s -> q { clock x <= 2 send c }
      edge s -> s { action t do { n := 1 div n } }
    }
    component Q { location s initial  edge s -> s { receive c } }
    """
    assert failure(text, "always true") == (
        "the action t of P fails: division by zero",
        [(None, 0.0), (None, 2.5)],
    )
    urgent = HEAD + text.replace("channel c", "urgent channel c").replace("clock x <= 2", "")
    assert isinstance(verdict_of(urgent, "always true"), Holds)
