"""What would be noticed: lost, changed, doubled and disordered events."""

from __future__ import annotations

import pytest

from veristream.kabis.cluster.delivery import Delivered, find_problems

GOOD: Delivered = [((0, 0), b"a"), ((1, 0), b"b"), ((0, 1), b"c"), ((1, 1), b"d")]


def test_what_is_as_it_was_pushed_is_no_problem() -> None:
    assert find_problems(dict(GOOD), GOOD) == []


def test_an_event_that_was_not_acknowledged_may_be_there() -> None:
    assert find_problems(dict(GOOD), [*GOOD, ((0, 2), b"e")]) == []


@pytest.mark.parametrize(
    ("read", "problem"),
    [
        (GOOD[:-1], "1 acknowledged events are lost, the first at index 1 of partition 1"),
        (
            [*GOOD[:-1], ((1, 1), b"x")],
            "1 events were altered, the first at index 1 of partition 1",
        ),
        ([*GOOD, GOOD[3]], "1 events were delivered twice"),
        ([*GOOD, ((1, 2), b"d")], "partition 1 has 1 events twice"),
        ([*GOOD, ((0, 2), b"b")], "partition 0 is not in the order in which its events were pushed"),
        ([GOOD[2], *GOOD[:2], GOOD[3]], "partition 0 was delivered out of the order of its indices"),
    ],
)
def test_each_problem_is_told(read: Delivered, problem: str) -> None:
    assert find_problems(dict(GOOD), read) == [problem]


def test_two_problems_are_both_told() -> None:
    read: Delivered = [((0, 0), b"c"), ((0, 1), b"a"), GOOD[1], GOOD[3]]
    assert find_problems(dict(GOOD), read) == [
        "2 events were altered, the first at index 0 of partition 0",
        "partition 0 is not in the order in which its events were pushed",
    ]
