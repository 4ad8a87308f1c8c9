"""The functions shared by all steps of a kernel: fresh rows, failing actions, full buffers."""

from __future__ import annotations

import pytest

from tests.unit.kernel.timed_rows import rows_of

MANY = """
clock x
var n: 0..9 = 0
var wide[12]: 0..30000 = 5
component P {
  location a initial
  edge a -> a { select s: 0..4 clock x > 1 do { n := s; reset x := s } }
  edge a -> a { clock x < 7 do { wide[n] := 6 } }
  edge a -> a { do { n := n + 10 } }
}
"""


def test_each_row_begins_as_the_state_with_no_clock_set_and_no_bound() -> None:
    rows, start = rows_of(MANY)
    assert rows.kernel.layout.word_count > 2  # rows this long are copied by the shared function
    entries = rows.successors(start)
    assert entries is not None
    assert [entry.sets for entry in entries] == [(0,), (1,), (2,), (3,), (4,), (-1,), (-1,)]
    assert [entry.bounds for entry in entries] == [((0, 1, "<", -1),)] * 5 + [((1, 0, "<", 7),), ()]
    assert [entry.fails for entry in entries] == [False] * 6 + [True]
    values = [entry.state.values for entry in entries if entry.state is not None]
    assert [found[0] for found in values] == [0, 1, 2, 3, 4, 0]
    assert [found[1:] for found in values] == [(5,) * 12] * 5 + [(6, *(5,) * 11)]


@pytest.mark.parametrize("capacity", [0, 1, 6])
def test_where_there_is_no_room_nothing_is_told(capacity: int) -> None:
    rows, start = rows_of(MANY)
    assert rows.successors(start, capacity) is None


def test_room_for_the_last_one_is_enough() -> None:
    rows, start = rows_of(MANY)
    assert len(rows.successors(start, 7) or []) == 7


def test_a_failing_action_after_a_step_does_not_keep_the_bounds_of_that_step() -> None:
    text = """
    clock x
    var n: 0..1 = 0
    component P {
      location a initial
      edge a -> a { clock x < 7 do { reset x := 3 } }
      edge a -> a { when 1 div n == 1 }
    }
    """
    rows, start = rows_of(text)
    step, failing = rows.successors(start) or []
    assert (step.fails, step.sets, step.bounds) == (False, (3,), ((1, 0, "<", 7),))
    assert (failing.fails, failing.sets, failing.bounds) == (True, (-1,), ())
