"""Which actions clash, what they need, and what may fail; judged from the network alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from veristream.ir.network import Network
from veristream.ir.text.read import read_network
from veristream.search.reduction.conditions import Condition, Of
from veristream.search.reduction.relations import NONE, Relations, relate, unsupported
from veristream.source import Source


def network(text: str) -> Network:
    return read_network(Source("test.net", f"network test\n{text}"))


def bits(mask: int) -> set[int]:
    return {number for number in range(mask.bit_length()) if mask >> number & 1}


def clashes(relations: Relations, action: int) -> set[int]:
    """The actions besides itself that clash with this one."""
    return bits(relations.clashes[action]) - {action}


def one_edge(name: str, edge: str) -> str:
    return f"component {name} {{ location a initial location b edge a -> b {{ {edge} }} }}\n"


BUFFER = "channel link: buffer 2 (0..3)\n"


def test_a_send_and_a_receive_on_one_buffer_commute() -> None:
    sends = one_edge("S", "send link(1)") + one_edge("T", "send link(2)")
    receives = one_edge("R", "receive link(?v)") + one_edge("Q", "receive link(?v)")
    found = relate(network(BUFFER + sends + receives))
    assert [clashes(found, action) for action in range(4)] == [{1}, {0}, {3}, {2}]


def test_a_send_that_may_overflow_clashes_with_a_receive() -> None:
    made = network(BUFFER + one_edge("S", "send link(1)") + one_edge("R", "receive link(?v)"))
    channels = tuple(replace(channel, overflow_faults=True) for channel in made.channels)
    found = relate(replace(made, channels=channels))
    assert clashes(found, 0) == {1}
    assert found.may_fault


def test_elements_of_an_array_are_told_apart() -> None:
    writes = "".join(one_edge(f"W{i}", f"do {{ x[{i}] := 1 }}") for i in range(2))
    found = relate(network("var x[3]: 0..1\n" + writes + one_edge("R", "when x[1] == 1")))
    assert [clashes(found, action) for action in range(3)] == [set(), {2}, {1}]
    assert not found.may_fault


def test_an_index_that_is_not_known_is_every_element_in_its_range() -> None:
    text = "var x[3]: 0..1\nvar i: 0..1\n" + one_edge("W", "do { x[i] := 1 }")
    found = relate(network(text + "".join(one_edge(f"R{k}", f"when x[{k}] == 1") for k in range(3))))
    assert clashes(found, 0) == {1, 2}


def test_actions_that_exclude_each_other_do_not_clash() -> None:
    text = (
        "var x: 0..3\n"
        + one_edge("A", "when x == 1 do { x := 2 }")
        + one_edge("B", "when x > 1 do { x := 0 }")
    )
    found = relate(network(text))
    assert clashes(found, 0) == set()
    values = [one for one in found.conditions if one.of is Of.VALUE]
    assert values == [Condition(Of.VALUE, 0, "==", 1), Condition(Of.VALUE, 0, ">", 1)]


def test_what_makes_a_condition_true() -> None:
    text = BUFFER + one_edge("S", "send link(1)") + one_edge("R", "receive link(?v)")
    found = relate(network(text))
    sets = dict(zip(found.conditions, map(bits, found.necessary[: len(found.conditions)]), strict=True))
    assert sets[Condition(Of.LENGTH, 0, "<", 2)] == {1}
    assert sets[Condition(Of.LENGTH, 0, ">", 0)] == {0}
    assert sets[Condition(Of.LOCATION, 0, "==", 0)] == set()


def test_a_condition_behind_a_test_that_may_fault_does_not_stand_for_itself() -> None:
    text = "var x: 0..3\nvar y: 0..3\n"
    behind = relate(network(text + one_edge("A", "when 6 div x > 1 and y == 1")))
    assert [one.of for one in behind.conditions] == [Of.LOCATION]
    before = relate(network(text + one_edge("A", "when y == 1 and 6 div x > 1")))
    assert [one.of for one in before.conditions] == [Of.LOCATION, Of.VALUE]
    assert behind.actions[0].rest != NONE


def test_an_action_that_is_never_possible_clashes_with_nothing() -> None:
    text = "var x: 0..3\n" + one_edge("A", "when 1 == 2 do { x := 1 }") + one_edge("B", "do { x := 2 }")
    found = relate(network(text))
    assert clashes(found, 1) == set()


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("committed location b", "priorities relate all actions"),
        ("atomic location b", "priorities relate all actions"),
        ("location b invariant x < 3", "invariants of locations relate all actions"),
        ("location b", None),
    ],
)
def test_where_it_does_not_apply(location: str, reason: str | None) -> None:
    text = f"var x: 0..3\ncomponent A {{ location a initial {location} edge a -> b {{}} }}\n"
    assert unsupported(network(text)) == reason


def test_clocks_relate_all_actions() -> None:
    assert unsupported(Network("timed", timed=True)) == "clocks relate all actions"
