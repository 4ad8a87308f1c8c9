"""Limits in flight: what is held, when it ends, and limits that change."""

import pytest

from tests.unit.history.oracle.expected import anomalies_of, assert_held, judge_one, shown
from veristream.history.manifest import Stream
from veristream.history.properties import Property
from veristream_testing.histories.notation import QUEUE, history

TIMED = Stream("queue", offsets=False, redelivery_ns=30)


def overruns(line: str, stream: Stream = QUEUE) -> list[int]:
    """Returns the indices at which processes held too much."""
    return [anomaly.index for anomaly in anomalies_of(judge_one(Property.BOUNDED, history(line, stream)))]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("br1 b<a1 b<a2", [2]),
        ("b<a1 b<a2 br1 b+a1 b<a3", [5]),  # no limit before; what is held counts after
        ("br1 b<a1 b<a1", []),  # one message, however often it comes
        ("br1 b<a1 b<a1/1", [2]),
        ("br1 b<a1^0 b<a2^1", []),  # limits are of subscriptions, this one of none
        ("br1^0 b<a1^0 b<a2^0", [2]),
        ("br1 c<a1 b<a2", []),
        ("br1 b<a1 b+a1? b<a2", []),
        (
            "br1 b<a1 b-a1~ b<a1 b-a1$ b<a2",
            [5],
        ),  # the end of a call ends nothing that came after its beginning
        ("br1 b<a1 b+a1~ b+a1! b<a2", []),
        ("br1 b<a1 b+a1/1 b<a2", [4]),
        ("br2 b<? b<? b+? b<?", []),
        ("br2 b<? b<? b<? b+? b<?", [3, 6]),
        ("br1 b<? b<a1 b+?/1 b<a1", [2, 5]),
        ("br1 b<a1 bC b<a2 b<a3", [4]),
        ("br1 b<a1 bo0 b<a2 b<a3", [5]),
    ],
)
def test_held(line: str, expected: list[int]) -> None:
    assert overruns(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("br1 b<a1 br2 b<a2 b<a3", [4]),
        # 3 were allowed and 1 is held: 2 may be under way.
        ("br3 b<a1 br1 b<a2 b<a3 b+a1 b+a2 b<a4", [9]),
        ("br3 b<a1 br1 b<a2 b<a3 b+a1 b+a2 b+a3 b<a4", []),
        ("br2 b<a1 b<a2 br1 b+a1 b<a3", [6]),  # nothing was under way
        ("br3 b<a1 br2 br1 b<a2 b<a3 b<a4", [6]),  # the second one starts anew, with the limit of 3
        ("br3 b<a1 br2 b<a2 br1 b+a1 b+a2 b<a3 b<a4 b<a5", [10, 11]),
        ("br3 b<a1 br1 br3 b<a2 b<a3 b<a4", [6]),  # back at the earlier limit
        ("br3 b<a1 br1 br4 br3 b<a2 b<a3 b<a4 b<a5", [8]),
    ],
)
def test_limits_that_change(line: str, expected: list[int]) -> None:
    assert overruns(line) == expected


def test_what_is_old_counts_no_more() -> None:
    # Events are 10 ns apart; a delivery counts for 30 ns.
    assert overruns("br1 b<a1 bE bC~ b<a2", TIMED) == []
    assert overruns("br1 b<a1 c<a9 c<a9 b<a2", TIMED) == [2]
    assert overruns("br1 b<a1 c<a9 c<a9 c<a9 b<a2", TIMED) == []
    assert overruns("br1 b<a1 c<a9 b<a1 c<a9 c<a9 b<a2", TIMED) == [3]


def test_the_witness_shows_the_limit_and_the_last_that_are_held() -> None:
    receives = " ".join(f"b<a{number}" for number in range(9))
    judgement = judge_one(Property.BOUNDED, history(f"br7 br8 {receives}", QUEUE))
    assert shown(judgement) == ["b1", *(f"b{index}" for index in range(3, 11))]
    assert judgement.witnesses[0].told == "`b` had more than 8 messages of `queue` in flight"
    judgement = judge_one(Property.BOUNDED, history("br2 b<a1 br1 b<a2 b<a3", QUEUE))
    assert shown(judgement) == ["b1", "b2", "b3", "b4"]


def test_attempts_are_not_limited_by_what_is_unknown() -> None:
    stream = Stream("queue", offsets=False, attempts_max=1)
    assert_held(Property.BOUNDED, history("b<a1 b<a1", stream), "2 deliveries were within their limits")
