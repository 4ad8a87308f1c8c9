"""Messages found in traces: one process puts an item into a list, another takes it out."""

from __future__ import annotations

from veristream.report.messages import (
    Change,
    Exchange,
    Message,
    find_changes,
    find_lists,
    find_messages,
)
from veristream.verdict import Shown, Step


def run(*moves: tuple[str | None, list[Shown]]) -> tuple[Step, ...]:
    """Steps by (process, the list `net` after it)."""
    return tuple(Step(None if who is None else "go", who, {"net": net}) for who, net in moves)


def received(steps: tuple[Step, ...]) -> list[list[tuple[str, Shown]]]:
    messages = find_messages(steps, find_lists(steps))
    return [[(one.sender, one.item) for one in at] for at in messages]


def test_an_item_that_another_takes_is_a_message() -> None:
    steps = run((None, []), ("P", ["a"]), ("Q", []))
    assert find_messages(steps, find_lists(steps)) == ((), (), (Message("P", "net", "a"),))


def test_an_item_that_its_sender_takes_back_is_none() -> None:
    assert received(run((None, []), ("P", ["a"]), ("P", []))) == [[], [], []]


def test_an_item_that_was_there_from_the_beginning_has_no_sender() -> None:
    assert received(run((None, ["a"]), ("Q", []))) == [[], []]


def test_of_equal_items_the_oldest_is_received_first() -> None:
    steps = run((None, []), ("P", ["a"]), ("R", ["a", "a"]), ("Q", ["a"]), ("Q", []))
    assert received(steps) == [[], [], [], [("P", "a")], [("R", "a")]]


def test_a_request_is_taken_and_answered_in_one_step() -> None:
    steps = run((None, []), ("P", [{"kind": "ASK"}]), ("Q", [{"kind": "REPLY"}]), ("P", []))
    assert received(steps) == [[], [], [("P", {"kind": "ASK"})], [("Q", {"kind": "REPLY"})]]


def test_one_step_may_receive_from_several() -> None:
    steps = run((None, []), ("P", [1]), ("R", [1, 2]), ("Q", []))
    assert received(steps)[3] == [("P", 1), ("R", 2)]


def test_a_step_of_several_is_sent_by_the_one_that_leads() -> None:
    steps = run((None, []), ("P, R", [1]), ("Q", []), ("P(0, 1), R", [2]), ("R", []))
    assert received(steps)[2:] == [[("P", 1)], [], [("P(0, 1)", 2)]]


def test_a_step_of_nobody_neither_sends_nor_receives() -> None:
    steps = (*run((None, []), ("P", [1])), Step("(stays)", None, {"net": [1]}))
    assert received(steps) == [[], [], []]


def test_each_list_of_an_array_has_its_own_messages() -> None:
    states: list[list[Shown]] = [[[], []], [[7], []], [[7], [7]], [[7], []], [[], []]]
    who = [None, "P", "R", "Q", "Q"]
    steps = tuple(Step("go", by, {"net": net}) for by, net in zip(who, states, strict=True))
    messages = find_messages(steps, find_lists(steps))
    assert messages[3:] == ((Message("R", "net[1]", 7),), (Message("P", "net[0]", 7),))


def test_lists_are_told_from_arrays() -> None:
    first: dict[str, Shown] = {"array": [0, 0], "grows": [1], "empty": [], "records": [{"n": 1}], "n": 0}
    steps = (Step(None, None, first), Step("go", "P", first | {"grows": [1, 2], "array": [0, 1]}))
    assert find_lists(steps) == {("grows", 0), ("empty", 0), ("records", 0)}


def test_changes_part_by_part() -> None:
    before: dict[str, Shown] = {"slots": [0, 0], "net": [1, 2, 2], "queue": [1, 2], "n": 3, "same": 0}
    after: dict[str, Shown] = {"slots": [0, 5], "net": [2, 3], "queue": [2, 1], "n": 4, "same": 0, "new": 1}
    lists = frozenset({("net", 0), ("queue", 0)})
    assert list(find_changes(before, after, lists)) == [
        Change("slots[1]", 0, 5),
        Exchange("net", (1, 2), (3,)),
        Change("queue", [1, 2], [2, 1]),
        Change("n", 3, 4),
        Change("new", None, 1),
    ]
