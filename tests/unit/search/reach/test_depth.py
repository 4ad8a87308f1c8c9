"""Depth-first search: exact counts, deep goals, shorter traces, limits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from veristream.ir.network import Network
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.text.read import read_network
from veristream.ir.verify import verify
from veristream.kernel.layout import decode, encode
from veristream.kernel.load import load_kernel
from veristream.search.engine import check
from veristream.search.limits import Limits, Order, Progress
from veristream.search.reach import explore as driver
from veristream.search.reach import safety
from veristream.search.reach.batch import Batch, code_of
from veristream.search.reach.explore import Exploration, begin, begin_deep
from veristream.source import Source
from veristream.verdict import Holds, Result, Trace, Unknown, Violated, word

DEEP = Limits(order=Order.DEPTH)

FAN = """
network fan
var n: 0..9999 = 0
component C { location a initial  location b final
  edge a -> b { select k: 0..9999 action pick(k) do { n := k; } } }
"""

GRID = """
network grid
var x: 0..299 = 0
var y: 0..299 = 0
component X { location a initial  edge a -> a { when x < 299 do { x := x + 1; } } }
component Y { location a initial  edge a -> a { when y < 299 do { y := y + 1; } } }
property big: always x + y <= 1000
property corner: reachable x + y == 598
property top: reachable true maximise x + y
property steps: transition x' >= x
property ahead: transition x' - y' <= 7
property unmet: always x > 400 implies y == 0
"""

CHAIN = """
network chain
var n: 0..TOP = 0
var noise: 0..9 = 0
component Counter { location a initial  edge a -> a { when n < TOP do { n := n + 1; } } }
component Noise { location a initial
  edge a -> a { when noise < 9 do { noise := noise + 1; } }
  edge a -> a { when noise == 9 do { noise := 0; } } }
property top: reachable n == TOP
"""

DETOUR = """
network detour
var n: 0..1000 = 0
var seen: bool
component C {
  location start initial  location around  location near  location end
  edge start -> around { action leave }
  edge around -> around { action walk when n < 1000 do { n := n + 1; } }
  edge around -> near { action arrive when n == 1000 do { n := 0; } }
  edge start -> near { action short }
  edge near -> end { action enter do { seen := true; } }
}
property goal: reachable seen
property ends: deadlockfree
property never: always not C@end
property stays: transition seen == seen'
"""
"""The first way from start to near takes 1002 steps, the second one."""

NEAR = """
network near
var n: 0..1000 = 0
component C {
  location a initial  location b
  edge a -> a { action up when n < 1000 do { n := n + 1; } }
  edge a -> b { action jump when n >= 5 }
}
property low: always not C@b
property still: transition not (C@a and next(C@b))
"""
"""From every state from the fifth on, one step reaches the goal, each time another state."""


def read(text: str, top: int = 0) -> Network:
    network = read_network(Source("test.net", text.replace("TOP", str(top))))
    verify(network)
    return network


def verdicts(network: Network, names: Sequence[str], limits: Limits = DEEP) -> list[Result]:
    by_name = {one.name: one for one in network.properties}
    return list(check(network, [by_name[name] for name in names], limits))


def found_by(exploration: Exploration) -> list[int]:
    """How many states were found at each hit."""
    counts = []
    while not exploration.complete:
        exploration.advance()
        for hit in exploration.hits:
            counts.append(exploration.state_count)
            exploration.unwatch(hit.kind)
    exploration.close()
    return counts


def explorations(network: Network) -> tuple[Exploration, Exploration]:
    """A depth-first and a breadth-first exploration that watch for the properties."""
    batch = Batch()
    for one in network.properties:
        batch.add(one)
    kernel = load_kernel(network, batch.watch())
    initial = encode(kernel.layout, network, Interpreter(network).initial())
    code = code_of(kernel, batch.plan(), reduced=False)
    deep, wide = begin_deep(code, initial, batch.plan(), 256), begin(code, initial, batch.plan(), 1, 256)
    KEPT.append(kernel)
    return deep, wide


KEPT: list[object] = []
"""Kernels, whose code explorations call."""


def trace_of(result: Result) -> Trace:
    assert result.verdict.trace is not None
    return result.verdict.trace


def actions(result: Result) -> list[str | None]:
    return [step.action for step in trace_of(result).steps[1:]]


# --- Counts ------------------------------------------------------------------------------------------


def test_more_successors_than_the_buffer_holds() -> None:
    deep, _ = explorations(read(FAN))
    found_by(deep)
    assert deep.state_count == 10_001
    assert (deep.counts.transitions, deep.counts.depth, deep.counts.frontier) == (10_000, 1, 0)


def test_every_state_and_transition_is_found_once() -> None:
    deep, _ = explorations(read(GRID))
    found_by(deep)
    assert deep.state_count == 300 * 300
    assert deep.counts.transitions == 2 * 300 * 299
    assert deep.counts.depth == 598


@pytest.mark.parametrize("quantum", [1, 7])
def test_counts_do_not_depend_on_interruptions(quantum: int) -> None:
    deep, _ = explorations(read(CHAIN, top=50))
    depths = []
    while not deep.complete:
        deep.advance(quantum)
        depths.append(deep.counts.frontier - 1)
    assert (deep.state_count, deep.counts.transitions) == (510, 510 + 500)
    assert deep.counts.depth == max(depths)


def test_the_path_is_the_stack() -> None:
    network = read(CHAIN, top=100)
    deep, _ = explorations(network)
    layout = load_kernel(network, Batch().watch()).layout
    while not deep.hits:
        deep.advance()
    path = [decode(layout, network, deep.row(i)).values[0] for i in deep.path(deep.hits[0].other)]
    assert path == list(range(101))


def test_a_deep_goal_is_found_after_few_states() -> None:
    """Breadth-first, the irrelevant part is explored at every depth; depth-first, it is never entered."""
    deep, wide = explorations(read(CHAIN, top=100_000))
    assert found_by(deep)[0] == 100_001
    assert found_by(wide)[0] == sum(min(10, 100_001 - n) for n in range(100_001)) == 999_965
    assert deep.state_count == wide.state_count == 1_000_010
    assert deep.counts.transitions == wide.counts.transitions == 1_000_010 + 1_000_000


def test_the_stack_is_part_of_the_memory() -> None:
    deep, wide = explorations(read(CHAIN, top=100_000))
    found_by(wide)
    found_by(deep)
    assert deep.byte_count - wide.byte_count == 8 * (deep.counts.depth + 2)


# --- Verdicts ----------------------------------------------------------------------------------------


def test_verdicts_of_all_kinds() -> None:
    names = ["big", "corner", "top", "steps", "ahead", "unmet"]
    deep, wide = (verdicts(read(GRID), names, limits) for limits in (DEEP, Limits(workers=1)))
    assert [word(one.verdict) for one in deep] == ["holds", "holds", "holds", "holds", "violated", "holds"]
    assert [word(one.verdict) for one in wide] == [word(one.verdict) for one in deep]
    big, corner, top, _, ahead, unmet = deep
    assert (big.effort.states, big.effort.transitions) == (300 * 300, 2 * 300 * 299)
    assert all(one.effort.depth_first for one in deep)
    assert not any(one.effort.depth_first for one in wide)
    assert len(trace_of(corner).steps) == 599
    assert top.verdict.reason == "max x + y = 598"
    assert len(trace_of(ahead).steps) == 9 and trace_of(ahead).shortest
    assert isinstance(unmet.verdict, Holds) and unmet.verdict.vacuous is not None
    assert unmet.verdict == wide[5].verdict


@pytest.mark.parametrize(("name", "length"), [("goal", 2), ("ends", 2), ("never", 2), ("stays", 2)])
@pytest.mark.parametrize("within", [1, 1 << 16])
def test_a_detour_is_cut(name: str, length: int, within: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safety, "SHORTEST_WITHIN", within)
    (result,) = verdicts(read(DETOUR), [name])
    assert result.effort.depth >= 1002
    assert actions(result) == ["short", "enter"]
    assert trace_of(result).shortest is (within > 1)


@pytest.mark.parametrize("name", ["low", "still"])
def test_a_goal_beside_the_run_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safety, "SHORTEST_WITHIN", 1)
    (result,) = verdicts(read(NEAR), [name])
    assert result.effort.depth == 1001
    assert actions(result) == ["up"] * 5 + ["jump"]


def test_shortest_searches_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safety, "SHORTEST_WITHIN", 1)
    network = read(CHAIN, top=300)
    (longer,) = verdicts(network, ["top"])
    assert len(trace_of(longer).steps) == 301 and not trace_of(longer).shortest
    (shortest,) = verdicts(network, ["top"], Limits(order=Order.DEPTH, shortest=True))
    assert len(trace_of(shortest).steps) == 301 and trace_of(shortest).shortest
    assert shortest.effort.depth_first and shortest.effort.states == longer.effort.states == 301


def test_the_initial_state_is_a_shortest_trace() -> None:
    network = read(CHAIN.replace("n == TOP", "n == 0"), top=300)
    (result,) = verdicts(network, ["top"])
    assert len(trace_of(result).steps) == 1 and trace_of(result).shortest
    assert result.effort.states == 1


FAULTY = """
network faulty
var n: 0..100 = 0
component C { location a initial location b
  edge a -> a { action up do { n := n + 1; } }
  edge a -> b { action stop when n == 2 } }
property low: always n <= 200
property never: always not C@b
"""


@pytest.mark.parametrize(("within", "seen"), [(1, "unknown"), (1 << 16, "violated")])
def test_a_fault_is_told(within: int, seen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small breadth-first search finds what comes before the fault."""
    monkeypatch.setattr(safety, "SHORTEST_WITHIN", within)
    low, never = verdicts(read(FAULTY), ["low", "never"])
    assert isinstance(low.verdict, Unknown) and low.verdict.fault is not None
    assert len(trace_of(low).steps) == 101 and trace_of(low).shortest is (within > 1)
    assert word(never.verdict) == seen


# --- Limits ------------------------------------------------------------------------------------------


def test_the_state_limit_is_exact() -> None:
    (big,) = verdicts(read(GRID), ["big"], Limits(order=Order.DEPTH, states_max=5000))
    assert big.verdict == Unknown("the limit of 5000 states was reached (--max-states)")
    assert big.effort.states == 5000


def test_the_time_limit_is_named() -> None:
    (big,) = verdicts(read(GRID), ["big"], Limits(order=Order.DEPTH, seconds_max=0.0))
    assert big.verdict == Unknown("the limit of 0 seconds was reached (--max-seconds)")


def test_the_memory_budget_is_named() -> None:
    network = read(CHAIN.replace("n == TOP", "n > TOP"), top=1_000_000)
    (top,) = verdicts(network, ["top"], Limits(order=Order.DEPTH, memory_max_mib=1))
    assert isinstance(top.verdict, Unknown)
    assert top.verdict.reason.startswith("the memory budget of 1 MiB is used up (--max-memory-mib")
    assert 10_000 < top.effort.states < 400_000


def test_a_violation_found_in_time_stays_one() -> None:
    """The search for a shorter trace may reach a limit that the first one did not."""
    network = read(CHAIN, top=300)
    (top,) = verdicts(network, ["top"], Limits(order=Order.DEPTH, shortest=True, states_max=302))
    assert isinstance(top.verdict, Holds) and not trace_of(top).shortest


def test_an_interrupt_gives_the_result_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.states > 1000:
            raise KeyboardInterrupt

    limits = Limits(order=Order.DEPTH, states_max=80_000)
    ahead, big = check(
        read(GRID),
        [p for p in read(GRID).properties if p.name in ("ahead", "big")][::-1],
        limits,
        interrupt,
    )
    assert isinstance(ahead.verdict, Violated)
    assert big.verdict == Unknown("interrupted")


def test_nothing_is_searched_for_after_an_interrupt() -> None:
    seen: list[int] = []

    def interrupt(progress: Progress) -> None:
        seen.append(progress.states)
        raise KeyboardInterrupt

    limits = Limits(order=Order.DEPTH, states_max=100)
    network = read(GRID)
    (top,) = check(network, [p for p in network.properties if p.name == "top"], limits, interrupt)
    assert isinstance(top.verdict, Unknown) and len(seen) == 1
    assert top.verdict.reason == "interrupted; so far max x + y = 99"


def test_one_state_wider_than_the_buffer_is_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safety, "SHORTEST_WITHIN", 1)
    network = read(FAN + "property last: reachable n == 9999\n")
    (last,) = verdicts(network, ["last"])
    assert actions(last) == ["pick(9999)"] and last.effort.states == 10_001
    assert driver.BUFFER < 10_000
