"""A limit gives `Unknown` and is named; what was decided before stays decided."""

from __future__ import annotations

import pytest

from veristream.ir.network import Network
from veristream.ir.text.read import read_network
from veristream.ir.verify import verify
from veristream.search.engine import check
from veristream.search.limits import Limits, Progress
from veristream.source import Source
from veristream.verdict import Holds, Unknown, Violated

COUNTERS = """
network counters
var a: 0..999 = 0
var b: 0..999 = 0
component A { location here initial  edge here -> here { action up when a < 999 do { a := a + 1; } } }
component B { location here initial  edge here -> here { action up when b < 999 do { b := b + 1; } } }
property small: always a + b <= 5
property big: always a + b <= 2000
property goal: reachable a == 3
property top: reachable true maximise a + b
property live: ltl <> {a + b == 1998}
"""


def network() -> Network:
    result = read_network(Source("counters.net", COUNTERS))
    verify(result)
    return result


@pytest.mark.parametrize("workers", [1, 2])
def test_a_million_states_in_full(workers: int) -> None:
    results = check(network(), network().properties[:4], Limits(workers=workers))
    small, big, goal, top = (result.verdict for result in results)
    assert isinstance(small, Violated) and small.trace is not None and len(small.trace.steps) == 7
    assert isinstance(big, Holds) and big.vacuous is None
    assert isinstance(goal, Holds) and goal.trace is not None and len(goal.trace.steps) == 4
    assert isinstance(top, Holds) and top.reason == "max a + b = 1998"
    assert results[1].effort.states == 1_000_000
    assert results[1].effort.transitions == 2 * 1000 * 999
    assert results[1].effort.depth == 1998


def test_the_state_limit_is_named() -> None:
    small, big, _, top = check(network(), network().properties[:4], Limits(states_max=5000))
    assert isinstance(small.verdict, Violated)
    assert isinstance(big.verdict, Unknown)
    assert big.verdict.reason == "the limit of 5000 states was reached (--max-states)"
    assert 5000 <= big.effort.states < 50_000
    assert isinstance(top.verdict, Unknown) and "so far max a + b = " in top.verdict.reason


def test_the_time_limit_is_named() -> None:
    (big,) = check(network(), network().properties[1:2], Limits(seconds_max=0.0))
    assert isinstance(big.verdict, Unknown)
    assert big.verdict.reason == "the limit of 0 seconds was reached (--max-seconds)"


@pytest.mark.parametrize("name", ["big", "live"])
def test_the_memory_budget_is_named(name: str) -> None:
    wanted = [p for p in network().properties if p.name == name]
    (result,) = check(network(), wanted, Limits(memory_max_mib=4))
    assert isinstance(result.verdict, Unknown)
    assert result.verdict.reason == (
        "the memory budget of 4 MiB is used up (--max-memory-mib raises it;"
        " --engine spark --spill DIR uses a cluster's memory and disks)"
    )
    assert 10_000 < result.effort.states < 1_000_000


def test_an_interrupt_gives_the_result_so_far() -> None:
    def interrupt(progress: Progress) -> None:
        if progress.states > 1000:
            raise KeyboardInterrupt

    results = check(network(), network().properties, Limits(states_max=900_000), interrupt)
    assert isinstance(results[0].verdict, Violated)
    assert results[1].verdict == Unknown("interrupted")
    assert results[4].verdict == Unknown("interrupted")


def test_progress_tells_of_the_whole_search() -> None:
    seen: list[Progress] = []
    check(network(), network().properties[1:2], Limits(), seen.append)
    assert [p.states for p in seen] == sorted(p.states for p in seen)
    assert seen[-1].states == 1_000_000 and seen[-1].frontier == 0 and seen[-1].task == "big"
