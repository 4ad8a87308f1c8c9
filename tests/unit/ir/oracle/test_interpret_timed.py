"""The interpreter's results on clocks: bounds and resets of steps, and when time can pass."""

from __future__ import annotations

import pytest

from veristream.ir.clocks import Bound, ClockEffect
from veristream.ir.oracle.evaluate import ModelFault
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.text.read import read_network
from veristream.source import Source

WORLD = """network m
timed
var n: 0..3
var i: 0..9 = 1
clock x
clock y[2]
clock z
"""


def interpreter(text: str) -> Interpreter:
    return Interpreter(read_network(Source("m.net", WORLD + text)))


def one_edge(clauses: str) -> Interpreter:
    return interpreter(f"component P {{ location a initial location b edge a -> b {{ {clauses} }} }}")


def effects(model: Interpreter) -> list[ClockEffect]:
    return [step.clocks for step in model.steps(model.initial())]


def test_a_step_demands_bounds_in_order() -> None:
    model = one_edge("clock x < 3, z - y[i] >= n + 2, y[0] == 1, x > 5 if n > 0, z <= 7 if n == 0")
    assert effects(model) == [
        ClockEffect(
            (
                Bound(1, 0, 3, strict=True),
                Bound(3, 4, -2),
                Bound(2, 0, 1),
                Bound(0, 2, -1),
                Bound(4, 0, 7),
            )
        )
    ]


def test_what_a_step_does_not_ask_for_is_not_evaluated() -> None:
    assert effects(one_edge("clock y[n + 5] < 1 div n if n > 0")) == [ClockEffect()]


def test_the_last_reset_counts() -> None:
    model = one_edge("do { reset z := 4; reset y[i] := n; n := 2; reset z := n; if (0) { reset x := 1 } }")
    assert effects(model) == [ClockEffect((), ((3, 0), (4, 2)))]


def test_functions_reset_too() -> None:
    model = interpreter("""
        function f(k: 0..1): bool { reset y[k] := 3; return true }
        component P { location a initial edge a -> a { select k: 0..1 do { if (f(k)) { n := 1 } } } }""")
    assert effects(model) == [ClockEffect((), ((2, 3),)), ClockEffect((), ((3, 3),))]


def test_movers_demand_and_reset_in_their_order() -> None:
    model = interpreter("""
        channel c: broadcast (0..3)
        component P { location a initial edge a -> a { clock x > 1 receive c(?v) do { reset z := v } } }
        component Q {
          location a initial
          edge a -> a { clock x > 2 send c(3) do { reset z := 1; reset x := 1 } }
        }
        component R { location a initial edge a -> a { clock x > 3 receive c(?v) do { reset y[0] := v } } }
    """)
    bounds = tuple(Bound(0, 1, -limit, strict=True) for limit in (2, 1, 3))
    assert effects(model) == [ClockEffect(bounds, ((1, 1), (2, 3), (4, 3)))]


def test_faults_of_updates_keep_the_bounds() -> None:
    model = one_edge("clock x < 3 do { reset z := 0; n := i + 5 }")
    failed = model.failures(model.initial())
    assert [(f.fault.message, f.clocks) for f in failed] == [
        ("6 is outside the range 0..3 of n", ClockEffect((Bound(1, 0, 3, strict=True),)))
    ]
    assert effects(model) == []


def test_a_clock_is_not_set_to_a_negative_value() -> None:
    model = one_edge("clock x < 3 do { reset y[i] := n - i }")
    failed = model.failures(model.initial())
    assert [(f.fault.message, f.clocks.bounds) for f in failed] == [
        ("the clock y cannot be set to -1", (Bound(1, 0, 3, strict=True),))
    ]


@pytest.mark.parametrize(
    "clauses", ["clock x < 3, y[i + 1] < 3", "clock x < 1 div n", "clock x < 2 if 1 div n"]
)
def test_faults_of_guards_have_no_bounds(clauses: str) -> None:
    model = one_edge(clauses)
    assert [failed.clocks for failed in model.failures(model.initial())] == [ClockEffect()]


def test_a_clock_guard_comes_after_the_guard() -> None:
    model = one_edge("when n > 0 clock y[i + 1] < 3")
    assert model.expand(model.initial()).failures == ()


def test_invariants_in_the_order_of_components() -> None:
    model = interpreter("""
        component P { location a initial clock x <= 3, z < 9 if n > 0 location b }
        component Q { location a clock x < 1 location b initial clock y[i] - x == i }
    """)
    assert model.invariant_bounds(model.initial()) == (Bound(1, 0, 3), Bound(3, 1, 1), Bound(1, 3, -1))


def test_invariants_may_fault() -> None:
    model = interpreter("component P { location a initial clock y[i + 1] <= 3 }")
    with pytest.raises(ModelFault, match=r"index 2 is outside 0\.\.1 of y"):
        model.invariant_bounds(model.initial())


def test_clock_invariants_do_not_decide_steps_here() -> None:
    model = interpreter("component P { location a initial location b clock x < 0 edge a -> b }")
    assert effects(model) == [ClockEffect()]


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("component P { location a initial edge a -> a }", True),
        ("component P { urgent location a initial }", False),
        ("component P { committed location a initial }", False),
        ("component P { location a initial urgent location b edge a -> b }", True),
    ],
)
def test_locations_where_no_time_passes(text: str, may: bool) -> None:
    model = interpreter(text)
    assert model.may_delay(model.initial()) is may


@pytest.mark.parametrize(
    ("kind", "sending", "receiving", "may"),
    [
        ("rendezvous", "", "", False),
        ("rendezvous", "", "when n > 0", True),
        ("rendezvous", "when n > 0", "", True),
        ("rendezvous", "do { n := i + 5 }", "", False),
        ("broadcast", "", "when n > 0", False),
        ("broadcast", "when n > 0", "", True),
        ("buffer 1", "", "", False),
        ("buffer 1", "when n > 0", "", True),
    ],
)
def test_urgent_channels(kind: str, sending: str, receiving: str, may: bool) -> None:
    model = interpreter(f"""
        urgent channel c: {kind}
        component P {{ location a initial edge a -> a {{ send c {sending} }} }}
        component Q {{ location a initial edge a -> a {{ receive c {receiving} }} }}
    """)
    assert model.may_delay(model.initial()) is may


def test_an_urgent_step_counts_whatever_it_leads_to() -> None:
    model = interpreter("""
        urgent channel c: broadcast
        component P { location a initial location b invariant n > 0 edge a -> b { send c } }
    """)
    assert model.steps(model.initial()) == []
    assert not model.may_delay(model.initial())


def test_untimed_steps_say_nothing_of_clocks() -> None:
    model = Interpreter(
        read_network(Source("m.net", "network m component P { location a initial edge a -> a }"))
    )
    assert effects(model) == [ClockEffect()]
    assert model.invariant_bounds(model.initial()) == ()
