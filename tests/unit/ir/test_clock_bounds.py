"""The largest constants of clocks by location: every table derived by hand."""

from __future__ import annotations

import pytest

from veristream.errors import ModelError
from veristream.ir.clock_bounds import NEVER, VALUES_MAX, ClockBounds, clock_bounds
from veristream.ir.clocks import Bound
from veristream.ir.expr import ClockConstraint, ClockOp, ClockRef, Const
from veristream.ir.text.read import read_network
from veristream.source import Source

X, Y = 1, 2


def bounds_of(text: str, *asked: ClockConstraint) -> ClockBounds:
    return clock_bounds(read_network(Source("m.net", f"network m timed {text}")), asked)


def column(bounds: ClockBounds, clock: int) -> list[tuple[int, int]]:
    """Returns the lower and upper constants of a clock by location."""
    pairs = zip(bounds.lower[:, clock], bounds.upper[:, clock], strict=True)
    return [(int(lower), int(upper)) for lower, upper in pairs]


def ask(op: ClockOp, bound: int, clock: str = "x", other: str | None = None) -> ClockConstraint:
    return ClockConstraint(ClockRef(clock), None if other is None else ClockRef(other), op, Const(bound))


CHAIN = """
clock x clock y
component P {
  location a initial
  location b clock x <= 7
  location c clock y < 4
  location d
  edge a -> b { clock x > 2 do { reset y := 0 } }
  edge b -> c { clock x >= 5, y == 3 do { reset x := 0 } }
  edge c -> d { clock x < 9 }
}
"""


def test_constants_are_carried_back_until_the_clock_is_set() -> None:
    bounds = bounds_of(CHAIN)
    # x: c is left below 9, d has no tests; b is left from 5, stays up to 7 and then sets x.
    assert column(bounds, X) == [(5, 7), (5, 7), (NEVER, 9), (NEVER, NEVER)]
    # y: set on the edge to b, so a does not need it.
    assert column(bounds, Y) == [(NEVER, NEVER), (3, 4), (NEVER, 4), (NEVER, NEVER)]
    assert bounds.differences == ()


def test_what_is_asked_counts_everywhere_and_by_its_direction() -> None:
    assert column(bounds_of(CHAIN, ask(">", 6), ask("<=", 1)), X) == [(6, 7), (6, 7), (6, 9), (6, 1)]
    assert column(bounds_of(CHAIN, ask("==", 11, "y")), Y) == [(11, 11)] * 4


def test_a_cycle_is_gone_around_until_nothing_changes() -> None:
    text = """
    clock x
    component P {
      location a initial  location b  location c
      edge a -> b  edge b -> c  edge c -> a { clock x >= 4 }
      edge c -> c { clock x < 8 do { reset x := 0 } }
    }
    """
    assert column(bounds_of(text), X) == [(4, 8)] * 3


def test_setting_on_one_of_two_edges_does_not_hide_the_other() -> None:
    text = """
    clock x
    component P {
      location a initial  location b
      edge a -> b { do { reset x := 0 } }
      edge a -> b
      edge b -> b { clock x > 3 }
    }
    """
    assert column(bounds_of(text), X) == [(3, NEVER)] * 2


@pytest.mark.parametrize(
    ("update", "is_set"),
    [
        ("reset x := 2", True),
        ("if n > 0 { reset x := 0; }", False),
        ("if n > 0 { n := 0; } reset x := 0", False),  # conservative: the block might end before
        ("n := 0; reset x := 0", True),
        ("for i in 0..1 { reset x := 0; }", False),
        ("n := f()", True),
        ("n := g()", False),
    ],
)
def test_only_what_is_surely_set_stops_the_way_back(update: str, is_set: bool) -> None:
    text = f"""
    clock x
    var n: 0..1 = 0
    function f(): 0..1 {{ reset x := 0; return 0 }}
    function g(): 0..1 {{ if n == 0 {{ return 1 }} reset x := 0; return 0 }}
    component P {{
      location a initial  location b
      edge a -> b {{ do {{ {update} }} }}
      edge b -> b {{ clock x > 3 }}
    }}
    """
    assert column(bounds_of(text), X)[0] == ((NEVER, NEVER) if is_set else (3, NEVER))


def test_another_component_that_sets_a_clock_does_not_stop_the_way_back() -> None:
    text = """
    clock x
    component P { location a initial  location b  edge a -> b  edge b -> a { clock x <= 6 } }
    component Q { location c initial  edge c -> c { do { reset x := 0 } } }
    """
    assert column(bounds_of(text), X) == [(NEVER, 6), (NEVER, 6), (NEVER, NEVER)]


def test_elements_of_arrays_are_apart_where_the_index_is_known() -> None:
    text = """
    clock z[2][2]
    var n: 0..1 = 0
    component P {
      location a initial  location b
      edge a -> b { clock z[0][1] > 3 }
      edge b -> a { clock z[n][0] < 5 do { reset z[1][n] := 0; reset z[0][1] := 0 } }
    }
    """
    bounds = bounds_of(text)
    # z[0][1] is clock 2, and is set on the edge from b to a; z[1][n] denotes no fixed clock.
    assert column(bounds, 2) == [(3, 5), (NEVER, 5)]
    assert column(bounds, 1) == column(bounds, 3) == column(bounds, 4) == [(NEVER, 5)] * 2


def test_bounds_of_variables_count_with_their_greatest_value() -> None:
    text = """
    clock x
    var n: 0..12 = 0
    component P { location a initial clock x <= 2 * n  edge a -> a { select s: 3..7 clock x >= n - s } }
    """
    assert column(bounds_of(text), X) == [(9, 24)]
    negative = "clock x component P { location a initial edge a -> a { clock x >= -3 } }"
    assert column(bounds_of(negative), X) == [(0, NEVER)]


def test_differences_are_listed_and_reach_into_both_clocks() -> None:
    text = """
    clock x clock y
    component P {
      location a initial
      edge a -> a { clock x - y < 4 do { reset x := 3 } }
      edge a -> a { clock x - y == 1 }
      edge a -> a { clock x - y < 4 }
    }
    """
    bounds = bounds_of(text, ask(">=", 2, "y", "x"))
    assert bounds.differences == (
        Bound(X, Y, -2),
        Bound(X, Y, 4, strict=True),
        Bound(X, Y, 1),
        Bound(Y, X, -1),
    )
    # 4 is the largest constant, and clocks are set to at most 3.
    assert column(bounds, X) == column(bounds, Y) == [(7, 7)]


def test_a_difference_with_a_variable_is_listed_for_each_value() -> None:
    text = """clock x clock y var n: 0..{} = 0
    component P {{ location a initial  edge a -> a {{ clock x - y <= n }} }}"""
    found = bounds_of(text.format(VALUES_MAX - 1)).differences
    assert found == tuple(Bound(X, Y, limit) for limit in range(VALUES_MAX))
    with pytest.raises(ModelError) as caught:
        bounds_of(text.format(VALUES_MAX))
    assert caught.value.message == "the bound of this clock difference has 65 values"
    assert caught.value.hint == "use a constant, or a variable with at most 64 values"
