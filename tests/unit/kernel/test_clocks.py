"""The clock words that a timed kernel writes."""

from __future__ import annotations

import pytest

from tests.unit.kernel.timed_rows import rows_of
from veristream.ir.expr import ClockConstraint, ClockRef, Const, Load
from veristream.ir.network import Network
from veristream.ir.text.read import read_network
from veristream.kernel.clocks import NO_DELAY, bound_count, clock_word_count, invariant_count_max
from veristream.kernel.watch import Watch
from veristream.source import Source

HEAD = "clock x clock z[3] var n: 0..3 = 2 "  # x is number 1, the elements of z are 2, 3, 4


def component(edge: str, invariant: str = "", kind: str = "") -> str:
    places = f"{kind} location a initial {invariant} location b"
    return f"{HEAD} component P {{ {places} edge a -> b {{ {edge} }} }}"


@pytest.mark.parametrize(
    ("guard", "bounds"),
    [
        ("x < 5", ((1, 0, "<", 5),)),
        ("x <= 5", ((1, 0, "<=", 5),)),
        ("x > 5", ((0, 1, "<", -5),)),
        ("x >= 5", ((0, 1, "<=", -5),)),
        ("x == 5", ((1, 0, "<=", 5), (0, 1, "<=", -5))),
        ("z[0] - x < -3", ((2, 1, "<", -3),)),
        ("z[n] - z[n - 1] == n", ((4, 3, "<=", 2), (3, 4, "<=", -2))),
        ("x > 0, z[1] <= 2 * n", ((0, 1, "<", 0), (3, 0, "<=", 4))),
        ("x < 5 if n == 2, x < 6 if n == 1", ((1, 0, "<", 5),)),
        ("x < 0 - 30000000", ((1, 0, "<", -30000000),)),
    ],
)
def test_the_bounds_of_a_step(guard: str, bounds: tuple[object, ...]) -> None:
    rows, start = rows_of(component(f"clock {guard}"))
    (entry,) = rows.successors(start) or []
    assert entry.bounds == bounds
    assert entry.sets == (-1, -1, -1, -1)
    assert not entry.fails


@pytest.mark.parametrize(
    ("update", "sets"),
    [
        ("reset x := 0", (0, -1, -1, -1)),
        ("reset z[n] := n + 5; n := 0", (-1, -1, -1, 7)),
        ("n := 0; reset z[n] := n + 5", (-1, 5, -1, -1)),
        ("reset x := 3; reset x := 1", (1, -1, -1, -1)),
        ("for i in 0..2 { reset z[i] := i; }", (-1, 0, 1, 2)),
        ("if n == 1 { reset x := 4; }", (-1, -1, -1, -1)),
    ],
)
def test_the_clocks_that_a_step_sets(update: str, sets: tuple[int, ...]) -> None:
    rows, start = rows_of(component(f"do {{ {update} }}"))
    (entry,) = rows.successors(start) or []
    assert (entry.sets, entry.bounds) == (sets, ())


def test_both_movers_of_a_handshake_demand_and_set_the_leader_first() -> None:
    rows, start = rows_of(f"""{HEAD} channel c: rendezvous
    component P {{ location a initial  edge a -> a {{ clock x < n send c do {{ n := 1; reset x := n }} }} }}
    component Q {{ location a initial  edge a -> a {{ clock x > n receive c do {{ reset z[n] := n }} }} }}
    """)
    (entry,) = rows.successors(start) or []
    # Both guards are evaluated in the state before, where n is 2; the receiver's update after the sender's.
    assert entry.bounds == ((1, 0, "<", 2), (0, 1, "<", -2))
    assert entry.sets == (1, -1, 1, -1)


def test_a_broadcast_demands_what_those_who_hear_it_demand() -> None:
    rows, start = rows_of(f"""{HEAD} channel c: broadcast
    component P {{ location a initial  edge a -> a {{ clock x < 1 send c }} }}
    component Q {{ location a initial  edge a -> a {{ when n == 2 receive c do {{ reset z[0] := 0 }} }} }}
    component R {{ location a initial  edge a -> a {{ when n == 1 receive c do {{ reset z[1] := 0 }} }} }}
    """)
    (entry,) = rows.successors(start) or []
    assert entry.bounds == ((1, 0, "<", 1),)
    assert entry.sets == (-1, 0, -1, -1)


@pytest.mark.parametrize(
    ("edge", "bounds"),
    [
        ("clock x > 1 do { n := 1 div (n - 2) }", ((0, 1, "<", -1),)),  # the guard was passed
        ("clock x > 1 do { reset x := 0 - n }", ((0, 1, "<", -1),)),
        ("when 1 div (n - 2) == 0 clock x > 1", ()),
        ("clock z[n + 1] > 1", ()),
        ("clock x < 1 div (n - 2)", ()),
    ],
)
def test_a_failing_action_has_the_bounds_that_were_passed(edge: str, bounds: tuple[object, ...]) -> None:
    rows, start = rows_of(component(edge))
    (entry,) = rows.successors(start) or []
    assert entry.fails
    assert entry.bounds == bounds


def test_invariants_and_delays() -> None:
    rows, start = rows_of(component("do { n := 0 }", "clock x <= n, z[0] < 4 div n"))
    assert rows.timing(start) == (0, ((1, 0, "<=", 2), (2, 0, "<", 2)))
    for kind in ("urgent", "committed"):
        rows, start = rows_of(component("", "clock x <= 9", kind))
        assert rows.timing(start) == (NO_DELAY, ((1, 0, "<=", 9),))
    rows, start = rows_of(component("", "clock x <= 4 div (n - 2)"))
    assert rows.timing(start)[0] == -1


def test_watched_constraints_by_their_number() -> None:
    n = Load("n")
    late = ClockConstraint(ClockRef("z", (n,)), None, ">=", n)
    wrong = ClockConstraint(ClockRef("z", (Const(3),)), None, ">=", n)
    rows, start = rows_of(component(""), Watch(tests=((late,), (), (late, late), (wrong,))))
    assert rows.tests(start, 0) == (1, ((0, 4, "<=", -2),))
    assert rows.tests(start, 1) == (0, ())
    assert rows.tests(start, 2) == (2, ((0, 4, "<=", -2),) * 2)
    assert rows.tests(start, 3)[0] == -1


def test_room_for_words_of_clocks() -> None:
    network = _read(component("clock x == 1, z[0] < 3", "clock x == 0, x <= 4"))
    assert clock_word_count(network) == 4 + 1 + 3  # a word a clock, the number of bounds, the bounds
    assert invariant_count_max(network) == 3
    assert bound_count(network.components[0].edges[0].clock_guard) == 3
    plain = read_network(Source("m.net", "network m component P { location a initial }"))
    assert clock_word_count(plain) == 0


def _read(text: str) -> Network:
    return read_network(Source("m.net", f"network m timed {text}"))
