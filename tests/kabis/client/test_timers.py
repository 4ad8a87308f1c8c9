"""A producer asks again in time whoever failed it, and does not spin while an answer is on its way."""

from __future__ import annotations

from tests.kabis.client.world import author_of, make_cluster
from veristream.kabis.client.options import ProducerOptions
from veristream.kabis.client.producer.core import ProducerCore
from veristream.kabis.client.producer.outputs import Append, Recover
from veristream.kabis.ledger.follower import Follower
from veristream.kabis.protocol.partitions import PartitionName
from veristream.kabis.protocol.plain import SESSION_BYTES
from veristream.kabis.protocol.records import Record

RETRY_MS = 100


def make_producer() -> ProducerCore:
    """A producer without a journal, that has followed the chain and started at 0 ms."""
    cluster = make_cluster()
    follower = Follower(cluster.genesis)
    for certified in cluster.blocks:
        follower.follow(certified, 0)
    options = ProducerOptions(linger_ms=5, retry_ms=RETRY_MS)
    producer = ProducerCore(follower, author_of("alice"), options, bytes(SESSION_BYTES))
    assert producer.start(0) == []
    return producer


def test_parties_that_did_not_say_what_they_have_of_us_are_asked_again_whatever_happens_between() -> None:
    producer = make_producer()
    producer.push(Record("orders", b"x", partition=0), 0)
    asked = producer.tick(5)
    assert [type(output) for output in asked] == [Recover] * 3
    place = PartitionName("orders", 0)
    assert producer.recovered(place, "s2", (), 10) == []
    assert producer.recovered(place, "s0", None, 10) == []
    assert producer.recovered(place, "s1", None, 20) == []
    assert producer.tick(30) == [], "somebody pushed elsewhere, for example"
    assert producer.next_ms == 10 + RETRY_MS
    (again,) = producer.tick(10 + RETRY_MS)
    assert isinstance(again, Recover) and again.party == "s0"
    assert producer.next_ms == 20 + RETRY_MS


def test_while_an_append_is_on_its_way_once_more_there_is_nothing_to_do() -> None:
    producer = make_producer()
    producer.push(Record("logs", b"x", partition=0), 0)
    (first,) = producer.tick(5)
    assert isinstance(first, Append)
    assert producer.append_failed(first.append, first.party, "no answer", 10) == []
    assert producer.tick(30) == []
    assert producer.next_ms == 10 + RETRY_MS
    assert producer.tick(10 + RETRY_MS) == [first]
    assert producer.tick(11 + RETRY_MS) == []
    assert producer.next_ms == ProducerOptions().delivery_timeout_ms, "nothing before it is given up"
