"""Determinism as PAT means it: one event, one state after it."""

from __future__ import annotations

import pytest

from tests.event_oracle import process
from veristream.ir.network import Network
from veristream.ir.property import Deterministic, Property
from veristream.ir.text.read import read_network
from veristream.search.engine import check
from veristream.search.limits import Limits
from veristream.source import Source
from veristream.verdict import Holds, Result, Unknown, Violated


def judge(network: Network, limits: Limits | None = None) -> Result:
    (result,) = check(network, [Property("p", Deterministic())], limits or Limits())
    assert result.kind == "deterministic"
    return result


def read(text: str) -> Network:
    return read_network(Source("model.net", text))


small_cases = pytest.mark.parametrize(
    ("text", "event", "steps"),
    [
        ("", None, 0),
        ("0 a 1; 1 b 2", None, 0),
        ("0 a 1; 0 b 2", None, 0),
        ("0 a 1; 0 a 1", None, 0),  # two edges, but one state after them
        ("0 tau 1; 1 tau 0", None, 0),
        ("0 a 0; 0 b 1; 1 a 1", None, 0),
        ("0 a 1; 0 a 2", "a", 0),
        ("0 a 0; 0 a 1", "a", 0),
        ("0 a 1; 1 b 2; 2 c 3; 2 c 4", "c", 2),
        ("0 tau 1; 0 tau 2", "tau", 0),
        ("0 a 1; 1 tau 1; 1 tau 2", "tau", 1),
        ("0 a 1; 0 b 2; 1 x 3; 1 x 4; 2 y 3; 3 z 5; 3 z 6", "x", 1),
        ("0 a 1; 2 b 3; 2 b 4", None, 0),  # unreachable states do not count
    ],
)


@small_cases
def test_small(text: str, event: str | None, steps: int) -> None:
    verdict = judge(process(text)).verdict
    if event is None:
        assert verdict == Holds()
        return
    assert isinstance(verdict, Violated) and verdict.trace is not None and verdict.trace.shortest
    assert verdict.reason == f"in the last state, {event} can lead to 2 different states"
    assert len(verdict.trace.steps) == steps + 1


def test_equal_arguments_make_one_event() -> None:
    head = "network n var v: 0..3 component P { location l initial edge l -> l "
    assert isinstance(judge(read(head + "{ select k: 0..3 action a(k) do { v := k } } }")).verdict, Holds)
    broken = judge(read(head + "{ select k: 0..3 action a(k div 2) do { v := k } } }")).verdict
    assert broken.reason == "in the last state, a(0) can lead to 2 different states"
    many = judge(read(head + "{ select k: 0..3 action a do { v := k } } }")).verdict
    assert many.reason == "in the last state, a can lead to 4 different states"


def test_two_components_may_share_an_event() -> None:
    both = """
    network n
    component P(i: 0..1) { location l initial location m edge l -> m { action go%s } }
    """
    assert isinstance(judge(read(both % "(i)")).verdict, Holds)
    assert isinstance(judge(read(both % "")).verdict, Violated)


def test_a_visible_tau_is_another_event_than_invisible_steps() -> None:
    edges = "edge l -> m { tau } edge l -> l { action `tau` }"
    text = f"network n component P {{ location l initial location m {edges} }}"
    assert isinstance(judge(read(text)).verdict, Holds)


def test_symmetry_is_not_used() -> None:
    """The two states after `go` differ, although only in which instance went."""
    text = """
    network pair
    var done[2]: bool
    component P { location l initial edge l -> l {
      select i: 0..1  action go  when not done[i]  do { done[i] := true }
    } }
    symmetry Client 2 { done by 0 }
    """
    assert isinstance(judge(read(text)).verdict, Violated)


GRID = """
network grid
var a: 0..%d
var b: 0..%d
component A { location l initial edge l -> l { action right when a < %d do { a := a + 1 } } }
component B { location l initial edge l -> l { action down when b < %d do { b := b + 1 } } }
"""


def grid(most: int) -> Network:
    return read(GRID % (most, most, most, most))


def test_many_states_in_full() -> None:
    result = judge(grid(299))
    assert isinstance(result.verdict, Holds)
    assert result.effort.states == 90_000
    assert result.effort.transitions == 2 * 300 * 299
    assert result.effort.depth == 598


def test_limits_are_named() -> None:
    states = judge(grid(999), Limits(states_max=5000))
    assert states.verdict == Unknown("the limit of 5000 states was reached (--max-states)")
    seconds = judge(grid(999), Limits(seconds_max=0.0))
    assert seconds.verdict == Unknown("the limit of 0 seconds was reached (--max-seconds)")
    memory = judge(grid(999), Limits(memory_max_mib=8))
    assert memory.verdict == Unknown("the memory budget of 8 MiB is used up (--max-memory-mib)")


def test_a_fault_is_a_finding() -> None:
    edge = "edge l -> l { action up do { v := v + 1 } }"
    verdict = judge(read(f"network n var v: 0..2 component P {{ location l initial {edge} }}")).verdict
    assert isinstance(verdict, Unknown) and verdict.fault is not None and verdict.trace is not None
    assert len(verdict.trace.steps) == 3


def test_it_goes_with_other_properties() -> None:
    network = read(
        GRID % (3, 3, 3, 3) + "property d: deterministic property e: reachable a == 3 and b == 3"
    )
    first, second = check(network, network.properties, Limits())
    assert (first.property, second.property) == ("d", "e")
    assert isinstance(first.verdict, Holds) and isinstance(second.verdict, Holds)
