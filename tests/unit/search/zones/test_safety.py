"""Verdicts of timed searches that were wrong once, or are hard to get right; all derived by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.unit.search.zones.timed_texts import verdict_of
from veristream.ir.network import Network
from veristream.ir.property import Property
from veristream.search.zones import safety as timed
from veristream.search.zones.inquiry import Inquiry
from veristream.verdict import Holds, Violated


def test_a_network_that_ends_where_it_may_is_no_deadlock() -> None:
    text = "clock x component P { location s initial final clock x <= 3 }"
    assert isinstance(verdict_of(text, "deadlockfree"), Holds)
    assert isinstance(verdict_of(text, "always not deadlock"), Violated)
    two = f"{text} component Q {{ location s initial }}"
    assert isinstance(verdict_of(two, "deadlockfree"), Violated)
    assert isinstance(verdict_of(f"{two} var n: 0..1 = 1 terminal n == 1", "deadlockfree"), Holds)
    assert isinstance(verdict_of(f"{two} var n: 0..1 = 0 terminal n == 1", "deadlockfree"), Violated)


def test_zones_are_not_made_so_large_that_a_step_of_greater_priority_is_forgotten() -> None:
    # At x = 0, which is always true, the handshake is possible, so the step to b never is.
    text = """
    clock x
    channel c: rendezvous priority 1
    component P {
      location a initial clock x <= 0
      location b
      edge a -> a { clock x < 1 send c }
      edge a -> b
    }
    component Q { location d initial  edge d -> d { receive c } }
    """
    assert isinstance(verdict_of(text, "always P@a"), Holds)
    later = verdict_of(text.replace("x <= 0", "x <= 4"), "always P@a")
    assert isinstance(later, Violated) and later.trace is not None
    assert [step.delay for step in later.trace.steps] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("goal", "told"),
    [
        ("P@b maximise clock(x)", "max x = 4"),
        ("P@b minimise clock(x)", "min x > 1"),
        ("P@c maximise clock(x)", "max x < 6"),
        ("P@c maximise clock(y)", "max y < 25"),
        ("P@a minimise clock(y)", "min y = 0"),
        ("true maximise clock(z)", "max z is unbounded"),
    ],
)
def test_extremes_of_clocks(goal: str, told: str) -> None:
    text = """
    clock x  clock y  clock z
    component P {
      location a initial clock x <= 4
      location b clock x <= 4
      location c clock x < 6
      location d
      edge a -> b { clock x > 1 }
      edge b -> c { clock x == 4 do { reset x := 0; reset y := 19 } }
      edge c -> d
    }
    """
    found = verdict_of(text, f"reachable {goal}")
    assert isinstance(found, Holds) and found.reason == told


def test_a_clock_that_is_followed_far_enough_and_no_farther(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
    clock x  clock y
    component P { location a initial clock x <= 2  edge a -> a { clock x >= 1 do { reset x := 0 } } }
    """
    monkeypatch.setattr(timed, "REACH_MAX", 256)
    reached: list[int] = []
    original = timed.inquire

    def record(network: Network, group: Sequence[Property], reach: int) -> Inquiry:
        reached.append(reach)
        return original(network, group, reach)

    monkeypatch.setattr(timed, "inquire", record)
    found = verdict_of(text, "reachable true maximise clock(y)")
    assert isinstance(found, Holds) and found.reason == "max y is greater than 256"
    assert found.trace is None
    assert reached == [16, 256]
