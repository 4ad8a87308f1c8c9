"""Limits of timed searches give `Unknown` and are named, for every kind of property."""

from __future__ import annotations

import pytest

from tests.unit.search.zones.timed_texts import result_of, results_of, verdict_of
from veristream.search.limits import Limits, Progress
from veristream.verdict import Holds, Unknown, Violated

COUNTERS = """
clock x
clock y
var n: 0..999 = 0
var m: 0..999 = 0
component P {
  location a initial clock x <= 1
  edge a -> a { action up clock x == 1 do { reset x := 0; n := (n + 1) mod 1000; } }
  edge a -> a { action on clock x == 1 do { reset x := 0; m := (m + 1) mod 1000; } }
}
"""
"""A million states; a depth-first search finds a run early, a distant goal needs all of them."""

CLAIMS = [
    "always n < 1000",
    "always clock(x <= 1)",
    "always not (n == 999 and clock(x - y > 1))",
    "deadlockfree",
    "reachable n == 999 and m == 999",
    "n == 1 leadsto n == 500",
]


@pytest.mark.parametrize("claim", [*CLAIMS, "inevitable n == 1000"])
def test_the_state_limit_is_named(claim: str) -> None:
    result = result_of(COUNTERS, claim, Limits(states_max=900))
    assert result.verdict == Unknown("the limit of 900 states was reached (--max-states)")
    assert 900 <= result.effort.states < 3000


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_time_limit_is_named(claim: str) -> None:
    found = verdict_of(COUNTERS, claim, Limits(seconds_max=0.0))
    assert found == Unknown("the limit of 0 seconds was reached (--max-seconds)")


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_memory_budget_is_named(claim: str) -> None:
    result = result_of(COUNTERS, claim, Limits(memory_max_mib=2))
    assert result.verdict == Unknown("the memory budget of 2 MiB is used up (--max-memory-mib)")
    assert 2000 < result.effort.states < 100_000


def test_where_runs_begin_counts_as_memory_too() -> None:
    # The room for the zones of a run in many pieces is made on demand.
    result = result_of(COUNTERS, "inevitable clock(x - y > 1000)", Limits(memory_max_mib=1))
    assert result.verdict == Unknown("the memory budget of 1 MiB is used up (--max-memory-mib)")
    # Both searches of a `leadsto` share the budget: the first one takes most of it.
    text = COUNTERS.replace("999", "99").replace("1000", "100")
    claim = "clock(x >= 0) leadsto clock(x > 1)"
    assert isinstance(verdict_of(text, claim, Limits(memory_max_mib=16)), Violated)
    found = verdict_of(text, claim, Limits(memory_max_mib=1))
    assert found == Unknown("the memory budget of 1 MiB is used up (--max-memory-mib)")


def test_the_best_so_far_is_told() -> None:
    found = verdict_of(COUNTERS, "reachable true maximise n + m", Limits(states_max=900))
    assert isinstance(found, Unknown) and found.trace is not None
    limit, best = found.reason.split("; so far max n + m = ")
    assert limit == "the limit of 900 states was reached (--max-states)"
    # Each step adds one, and each takes one unit of time.
    assert len(found.trace.steps) == 1 + int(best)
    assert all(step.delay == 1.0 for step in found.trace.steps[1:])


def test_what_is_found_before_the_limit_is_told() -> None:
    near, far = results_of(
        f"{COUNTERS}\nproperty near: reachable n == 3\nproperty far: reachable n == 999",
        Limits(states_max=900),
    )
    assert isinstance(near.verdict, Holds) and near.verdict.trace is not None
    assert len(near.verdict.trace.steps) == 4
    assert isinstance(far.verdict, Unknown)


@pytest.mark.parametrize("claim", CLAIMS)
def test_an_interrupt_ends_the_search(claim: str) -> None:
    assert verdict_of(COUNTERS, claim, Limits(states_max=500_000), _interrupt) == Unknown("interrupted")


def test_after_an_interrupt_nothing_is_begun() -> None:
    tasks: list[str] = []

    def interrupt(progress: Progress) -> None:
        tasks.append(progress.task)
        raise KeyboardInterrupt

    properties = "\n".join(f"property p{i}: {claim}" for i, claim in enumerate(CLAIMS))
    results = results_of(f"{COUNTERS}\n{properties}", Limits(states_max=500_000), interrupt)
    assert [result.verdict for result in results] == [Unknown("interrupted")] * len(CLAIMS)
    assert len(tasks) == 1


def _interrupt(progress: Progress) -> None:
    raise KeyboardInterrupt


def test_progress_tells_of_the_search() -> None:
    seen: list[Progress] = []
    text = COUNTERS.replace("999", "99").replace("1000", "100")
    verdict_of(text, "always n < 100", Limits(), seen.append)
    assert seen[-1].states == 10_000
    assert seen[-1].frontier == 0
    assert seen[-1].task == "p"


MEASURED = """
clock x
clock y
var n: 0..999 = 0
component P {
  location a initial clock x <= 2
  edge a -> a { clock x >= 1 do { reset x := 0 } }
  edge a -> a { clock x >= 1 do { reset x := 0; n := (n + 1) mod 1000; } }
}
"""
"""A thousand states, and in each of them the clock y can have any value."""


def test_the_time_limit_is_for_all_searches_of_a_measure_together() -> None:
    verdict_of(MEASURED, "reachable true maximise clock(y)", Limits(states_max=1))  # loads the native code
    seen: list[float] = []
    limits = Limits(seconds_max=0.25)
    found = result_of(
        MEASURED, "reachable true maximise clock(y)", limits, lambda progress: seen.append(progress.seconds)
    )
    assert isinstance(found.verdict, Unknown)
    assert found.verdict.reason.startswith("the limit of 0.25 seconds was reached (--max-seconds)")
    assert seen == sorted(seen), "no search begins to count anew"
    assert sum(seconds >= 0.25 for seconds in seen) <= 1, "nothing is explored once the time is up"


def test_a_measured_clock_that_a_stopped_search_did_not_follow_to_its_end() -> None:
    text = """
    clock x  clock y  var n: 0..30 = 0
    component P {
      location a initial clock x <= 2
      edge a -> a { when n < 30 clock x >= 1 do { n := n + 1; reset x := 0 } }
    }
    """
    found = verdict_of(text, "reachable true maximise clock(y)", Limits(states_max=20))
    assert found == Unknown(
        "the limit of 20 states was reached (--max-states); so far max y is greater than 16"
    )
    whole = verdict_of(text, "reachable true maximise clock(y)", Limits())
    assert isinstance(whole, Holds) and whole.reason == "max y = 62"
