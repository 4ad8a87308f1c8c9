"""The numbers of zones of small automata, all derived by hand, and working memory that grows."""

from __future__ import annotations

import pytest

from tests.unit.search.zones.timed_texts import result_of, verdict_of
from veristream.search.zones import explore as zone_explore
from veristream.verdict import Holds, Violated

LINE = """
clock x
component P {
  location a initial clock x <= 3
  location b
  location c
  edge a -> b { clock x == 3 }
  edge b -> c { clock x > 5 }
  edge c -> c { do { reset x := 0 } }
}
"""

ROUNDS = """
clock x
clock y
component P {
  location a initial clock x <= 2
  location b
  edge a -> a { clock x == 2 do { reset x := 0 } }
  edge a -> b { clock y >= 6, x == 0 }
}
"""


def test_a_line_has_one_zone_a_location() -> None:
    effort = result_of(LINE, "always true").effort
    # In c no clock is compared any more, so the zone after the reset is the same.
    assert (effort.states, effort.transitions, effort.depth) == (3, 3, 2)


@pytest.mark.parametrize("constant", [0, 1, 2, 6, 10, 100])
def test_zones_are_told_apart_up_to_the_greatest_constant(constant: int) -> None:
    # y is only compared from below, so a zone may be extended to smaller values of y. Zones of a
    # differ only in how far y is ahead at most: by 0, 2, 4, ... and by anything, once that exceeds the
    # constant. Each of these `constant div 2 + 2` zones covers the one before it. All are expanded, and an
    # even constant is reached by two of them.
    effort = result_of(ROUNDS.replace("y >= 6", f"y >= {constant}"), "always true").effort
    rounds, ends = constant // 2 + 2, 1 if constant % 2 else 2
    assert effort.transitions == rounds + ends
    assert effort.states == 2  # the last zone of a, and one zone of b, where nothing is compared


def test_all_zones_of_a_state_are_kept_if_none_covers_another() -> None:
    # y is compared from below and from above. In a it is ahead of x by exactly 0, 2, ..., 1000, or it is
    # greater than 1000. Each of these zones leads to the next, the last one to itself, and the one before
    # it to b.
    text = ROUNDS.replace("y >= 6", "y == 1000")
    effort = result_of(text, "always true").effort
    assert (effort.states, effort.transitions) == (502 + 1, 502 + 1)


def test_a_clock_compared_from_above_only_needs_one_zone() -> None:
    # Smaller values of y allow more than larger ones, and the first zone has the smallest.
    text = ROUNDS.replace("edge a -> b { clock y >= 6, x == 0 }", "edge a -> a { clock y < 100 }")
    assert result_of(text, "always true").effort.states == 1


def test_a_larger_zone_takes_the_place_of_a_smaller_one() -> None:
    text = """
    clock x
    component P {
      location a initial clock x <= 4
      location b clock x <= 9
      location c clock x <= 9
      edge a -> c { clock x == 4 }
      edge a -> b
      edge b -> c
    }
    """
    # c is reached with x = 4 first, then with any x; only the second is expanded and counted.
    effort = result_of(text, "always clock(x <= 9)").effort
    assert effort.states == 3
    assert effort.transitions == 3


def test_a_condition_of_clocks_is_told_apart_too() -> None:
    # If no property mentions y, it is compared with nothing, and a is one zone.
    text = ROUNDS.replace("edge a -> b { clock y >= 6, x == 0 }", "")
    assert result_of(text, "always true").effort.transitions == 1
    # Otherwise it is ahead of x by at most 0, 2, 4, 6 or anything.
    effort = result_of(text, "always clock(y <= 7) or true").effort
    assert (effort.states, effort.transitions) == (1, 5)
    found = result_of(text, "reachable clock(y > 7)")
    assert isinstance(found.verdict, Holds)
    assert found.verdict.trace is not None
    assert [step.delay for step in found.verdict.trace.steps] == [0.0, 2.0, 2.0, 2.0, 1.5]


FAN = """
clock x
var n: 0..999 = 0
component P {
  location a initial
  location b clock x <= 5
  edge a -> b { select s: 0..599 clock x >= 1 do { n := s; } }
}
"""


def test_a_state_with_more_successors_than_there_is_room_for() -> None:
    assert zone_explore.BUFFER < 600
    effort = result_of(FAN, "always true").effort
    assert (effort.states, effort.transitions, effort.depth) == (601, 600, 1)
    found = verdict_of(FAN, "reachable n == 599")
    assert isinstance(found, Holds) and found.trace is not None
    assert [step.delay for step in found.trace.steps] == [0.0, 1.0]
    # No step leaves b: a run stays there with any n, so none of these is inevitable.
    assert isinstance(verdict_of(FAN, "n == 598 leadsto n == 599"), Violated)
    assert isinstance(verdict_of(FAN, "P@b and n == 599 leadsto n == 599"), Holds)
    assert isinstance(verdict_of(FAN, "deadlockfree"), Violated)


def pieces(count: int) -> str:
    """Two clocks, and one edge for each of the given number of values of their difference."""
    edges = " ".join(f"edge b -> c {{ clock x - y == {k} }}" for k in range(count))
    return f"""
    clock x
    clock y
    component P {{
      location a initial clock x <= {count}
      location b
      location c
      edge a -> b {{ do {{ reset y := 0 }} }}
      {edges}
    }}
    """


@pytest.mark.parametrize("count", [3, 50])
def test_a_zone_in_few_and_in_more_pieces_than_there_is_room_for(count: int) -> None:
    # In a both clocks are equal. In b, x - y is anything from 0 to `count`: one zone for each of
    # 0..count-1,
    # and those between and after them. c is entered once with each of those numbers.
    assert 2 * 3 < zone_explore.PIECES < 2 * 50
    effort = result_of(pieces(count), "always true").effort
    in_a, in_b, in_c = 1, 2 * count, count
    assert effort.states == in_a + in_b + in_c


def test_deadlocks_in_many_pieces() -> None:
    # Stuck in b unless the difference is a whole number below the constant.
    found = verdict_of(pieces(40), "deadlockfree")
    assert isinstance(found, Violated)
    whole = pieces(40).replace("location c", "location c\n  edge c -> c")
    assert isinstance(verdict_of(whole, "reachable P@b and not deadlock"), Holds)
    assert isinstance(verdict_of(whole, "reachable P@b and deadlock"), Holds)
    assert isinstance(verdict_of(whole, "reachable P@b and deadlock and clock(x - y == 7)"), Violated)
    assert isinstance(verdict_of(whole, "reachable P@c and deadlock"), Violated)
