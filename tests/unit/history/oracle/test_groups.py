"""Groups and transactional ids: who holds what and when, and which events a witness shows first."""

import pytest

from tests.unit.history.oracle.expected import (
    anomalies_of,
    assert_held,
    assert_not_observable,
    assert_violated,
    judge_one,
    shown,
)
from veristream.history.properties import Property
from veristream.history.verdicts import Anomaly
from veristream_testing.histories.notation import LOG, QUEUE, history


def overlaps(line: str) -> list[str]:
    """Returns the later assignments that overlap."""
    judgement = judge_one(Property.EXCLUSIVE, history(line))
    return [f"{'abc'[each.process]}{each.index}" for each in anomalies_of(judgement)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("aA0 bA0", ["b0"]),
        ("aA0 bA0/1", []),
        ("aA0 bA0^1", []),
        ("aA0 aR/1 bA0", ["b0"]),
        ("aA0 aR^1 bA0", ["b0"]),
        ("aA0 aC bA0", []),
        ("aA0 cC bA0", ["b0"]),
        ("aR aA0 bA0", ["b0"]),
        ("aA0 aR aA0 bA0 aR", ["b0"]),
        ("aA0 aR bA0 aA0", ["a2"]),
        ("aA0 aR bA0*10", []),  # at the time of the REVOKE
        ("aA0 aR bA0*9", ["b0"]),
        ("aA0 bA0*0", ["b0"]),
        ("bA0 aA0*0", ["b0"]),  # at one time, the higher process is later
        ("aA0 aA0 bE0-0 bA0", ["b2"]),
        ("aA0 bA0 cA0", ["b0", "c0"]),
    ],
)
def test_overlaps(line: str, expected: list[str]) -> None:
    assert overlaps(line) == expected


def test_the_first_of_several_that_hold_a_partition_is_shown() -> None:
    judgement = judge_one(Property.EXCLUSIVE, history("aA0 bA0 cA0"))
    assert [[event.process for event in each.events] for each in judgement.witnesses] == [[0, 1], [0, 2]]


def test_assignments_of_queues_are_not_looked_at() -> None:
    of = history("aA0.1 bA0.1 a=3.1 a=2.1 aA0 bA0/1", LOG, QUEUE)
    held = "1 group never assigned a partition to two members at a time"
    assert_held(Property.EXCLUSIVE, of, held)
    assert_not_observable(Property.FORWARD, of, "no commit followed another one")


def test_each_group_is_asked_for_itself() -> None:
    of = history("aA0 aR bA0 bR aA0^1 aR^1 bA0^1 aA0^2")
    held = "2 groups never assigned a partition to two members at a time"
    assert_held(Property.EXCLUSIVE, of, held)
    of = history("ao1 bo2 ao1^1 bo2^1 ao1^2 ao2^2")
    held = "2 transactional ids had two processes, and none committed once it was fenced"
    assert_held(Property.FENCED, of, held)


def test_commits_are_compared_with_the_highest_before() -> None:
    judgement = assert_violated(
        Property.FORWARD,
        history("a=2 a=5 a=5 b=1/1 b=9^1 b=3! b=3? b=4"),
        "1 commit below an earlier one",
        Anomaly("backward commit", stream=0, partition=0, group=0, process=1, index=9),
    )
    assert shown(judgement) == ["a3", "b9"]
    assert judgement.witnesses[0].told == (
        "`b` committed offset 4 of `log`/0 in group `g`, after a commit of 5"
    )


def test_an_assignment_is_compared_with_the_commits_before_its_call() -> None:
    assert not judge_one(Property.FORWARD, history("a=5~ bA3 a=5$")).counts
    assert not judge_one(Property.FORWARD, history("a=5 bA3*10")).counts  # at the time at which it ended
    assert judge_one(Property.FORWARD, history("a=5*0 bA3*1")).counts  # a clock that stands did not jump
    judgement = judge_one(Property.FORWARD, history("a=2 a=5 a=4 bA bA3"))
    assert judgement.counts == {"backward commit": 1, "lost commit": 1}
    assert [event.index for event in judgement.witnesses[1].events] == [3, 1]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ao1 a[1 bo2 a]1", ["b1", "a4", "a5"]),
        ("ao1 a[1 bo2 co3 a]1", ["b1", "a4", "a5"]),  # the first that fenced it
        ("ao2 a[1 bo2 a]1", []),  # not a higher epoch
        ("ao1 a[1 ao2^1 bo2 a]1", []),  # another id
        ("ao1 a[1 bo2? a]1", []),
        ("ao1 a[1 bo2 a]1! a]1?", []),
        ("ao1 a[1 bo2 ax1", []),
        ("ao1 a[1 bo2~ a]1 bo2$", []),
    ],
)
def test_fenced_commits(line: str, expected: list[str]) -> None:
    judgement = judge_one(Property.FENCED, history(line))
    assert (shown(judgement) if judgement.witnesses else []) == expected


def test_where_a_group_starts() -> None:
    def unprocessed(line: str) -> list[int]:
        judgement = judge_one(Property.PROCESSED, history(line))
        return [each.number for each in anomalies_of(judgement)]

    sends = "a>0@0 a>1@1 a>2@2 b+a9@9^0"
    assert unprocessed(f"{sends} b=2") == [0, 1]
    assert unprocessed(f"{sends} bA1 b=2") == [1]
    assert unprocessed(f"{sends} bA1 bA b=2") == [1]
    assert unprocessed(f"{sends} bA1 cA0 b=2") == [0, 1]
    assert unprocessed(f"{sends} bA1/1 cA1^1 b=2") == [0, 1]
    assert unprocessed(f"{sends} bA1 b=3/1 b=3^1 b=3! b=2") == [1]
    assert unprocessed(f"{sends} b+a0@0^0 b+a1@1^1 b=2") == [1]
    # What is not effective was received, or is not asked for.
    assert unprocessed("a>0@0? a>1@1? b<a1@1^0 c<a0@0^1 b+a9@9^0 b=2") == [1]
    assert unprocessed("a>0@5 b<a0@1^0 b+a9@9^0 b=2") == [0]
    judgement = judge_one(Property.PROCESSED, history("a>0@0? b<a0@0^0 b<a0@1^0 b+a9@9^0 b=1 b=2"))
    assert shown(judgement) == ["b0", "b5"]
