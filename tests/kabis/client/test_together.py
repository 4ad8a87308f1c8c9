"""Many events with one call, and one future for all of them."""

from __future__ import annotations

import asyncio

import pytest

from tests.kabis.client.world import consuming, make_cluster, producing, pull, values
from veristream.errors import EnvironmentFailure
from veristream.kabis.client.errors import UnknownTopicError
from veristream.kabis.client.pushes import Parcel, Pushed, PushedMany, Settlement


@pytest.mark.parametrize(("topic", "validate"), [("orders", True), ("logs", False)])
def test_all_stand_in_their_order(topic: str, validate: bool) -> None:
    cluster = make_cluster()
    with producing(cluster) as producer, consuming(cluster, [topic], validate=validate) as consumer:
        pushed = producer.push_all(topic, [b"%d" % number for number in range(300)], key=b"k")
        more = producer.push_all(topic, [b"last"], key=b"k")
        assert len(pushed) == 300
        pushed.wait(30)
        assert pushed.done()
        told = pushed.result(30) + more.result(30)
        assert [each.index for each in told] == list(range(301))
        assert {each.partition for each in told} == {told[0].partition}
        assert {each.validated for each in told} == {validate}
        events = pull(consumer, 301)
        assert values(events) == [*(b"%d" % number for number in range(300)), b"last"]
        assert {event.key for event in events} == {b"k"}


def test_none_is_nothing_to_wait_for() -> None:
    with producing(make_cluster()) as producer:
        pushed = producer.push_all("orders", [])
        assert (len(pushed), pushed.done(), pushed.result(0)) == (0, True, [])


def test_an_unknown_topic_is_told() -> None:
    with producing(make_cluster()) as producer, pytest.raises(UnknownTopicError):
        producer.push_all("nowhere", [b"a", b"b"])


def test_neighbours_in_a_parcel_are_one_part() -> None:
    one, other = Parcel("t", 0, 0, 0), Parcel("t", 0, 0, 0)
    many = PushedMany()
    many.add(Pushed(one, 4))
    many.add_part(one, 5, 2)
    many.add(Pushed(other, 0))
    many.add(Pushed(one, 7))
    assert len(many) == 5
    assert not many.done()
    with pytest.raises(TimeoutError):
        many.wait(0)
    one.settle(Settlement(100, None, None))
    assert not many.done()
    other.settle(Settlement(7, None, None, lambda: [70]))
    assert [each.index for each in many.result(0)] == [104, 105, 106, 70, 107]


def test_what_failed_is_raised() -> None:
    one, other = Parcel("t", 0, 0, 0), Parcel("t", 0, 0, 0)
    many = PushedMany()
    many.add(Pushed(one, 0))
    many.add(Pushed(other, 0))
    one.settle(Settlement(0, None, None))
    other.settle(EnvironmentFailure("no broker answers", "start it"))
    assert many.done()
    with pytest.raises(EnvironmentFailure, match="no broker answers"):
        many.wait(0)

    async def wait() -> None:
        await many

    with pytest.raises(EnvironmentFailure, match="no broker answers"):
        asyncio.run(wait())
