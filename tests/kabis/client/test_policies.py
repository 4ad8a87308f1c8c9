"""Keys that are rotated, topics whose policy changes, and where keyed events go."""

from __future__ import annotations

import pytest

from tests.kabis.chain import CHAIN, key_of
from tests.kabis.client.world import (
    FOR_EVER_MS,
    author_of,
    connect_to,
    consuming,
    make_cluster,
    producing,
    pull,
    values,
    wait_until,
)
from veristream.errors import ModelError
from veristream.kabis.client.errors import KeyEndedError, PolicyChangedError
from veristream.kabis.client.options import ProducerOptions
from veristream.kabis.client.producer.producer import KabisProducer
from veristream.kabis.protocol.actions import RotateKey, SetTopic
from veristream.kabis.protocol.outcomes import Done
from veristream.kabis.protocol.records import Record, choose_partition
from veristream.kabis.protocol.transactions import prove_possession


def test_a_rotated_key_goes_on_where_the_old_one_ended() -> None:
    cluster = make_cluster()
    with producing(cluster) as old:
        assert old.push(Record("orders", b"old", partition=0)).result(30).index == 0
        new_key = key_of("alice", 1)
        possession = prove_possession(CHAIN, "alice", 1, new_key)
        assert cluster.act("alice", RotateKey(new_key.public, possession)) == Done()
        wait_until(lambda: old.metrics()["height"] == len(cluster.blocks))
        with pytest.raises(KeyEndedError, match="replaced by a newer one"):
            old.push(Record("orders", b"too late", partition=0))
    author = author_of("alice", 1)
    with KabisProducer(cluster.genesis, author, connect_to(cluster, author)) as new:
        assert new.push(Record("orders", b"new", partition=0)).result(30).index == 1
    with consuming(cluster) as consumer:
        assert values(pull(consumer, 2)) == [b"old", b"new"]
    assert cluster.ledger.cursor("alice", "orders", 0).next_sequence == 2


def test_what_was_signed_for_a_validated_topic_is_never_signed_anew() -> None:
    cluster = make_cluster(at_once=False)
    with producing(cluster) as producer:
        pushed = producer.push(Record("orders", b"signed", partition=0))
        wait_until(lambda: len(cluster.mempool) == 1)
        assert cluster.act("admin", SetTopic("orders", 2, validated=False)) == Done()
        with pytest.raises(PolicyChangedError, match="orders is no longer validated"):
            pushed.result(30)
        cluster.at_once = True
        plain = producer.push(Record("orders", b"plain", partition=0)).result(30)
        assert not plain.validated
        assert cluster.ledger.partition("orders", 0).next_index == 0
        assert cluster.act("admin", SetTopic("orders", 2, validated=True)) == Done()
        wait_until(lambda: producer.metrics()["height"] >= len(cluster.blocks))
        assert producer.push(Record("orders", b"next", partition=0)).result(30).index == 1
    with consuming(cluster) as consumer:
        assert values(pull(consumer, 2)) == [b"signed", b"next"]
    for party in cluster.parties.values():
        assert party.core.evidence("orders") == []


def test_keys_choose_the_partition_as_they_do_in_kafka() -> None:
    cluster = make_cluster()
    keys = [b"customer-%d" % number for number in range(20)]
    with producing(cluster) as producer:
        pushed = [producer.push(Record("orders", b"x", key=key)) for key in keys]
        assert [each.result(30).partition for each in pushed] == [choose_partition(key, 2) for key in keys]
        assert {each.result(30).partition for each in pushed} == {0, 1}


def test_events_without_a_key_go_to_all_partitions_in_turn() -> None:
    cluster = make_cluster()
    with producing(cluster, batch_events=2, linger_ms=FOR_EVER_MS) as producer:
        pushed = [producer.push(Record("orders", b"x")) for _ in range(8)]
        assert sorted(each.result(30).partition for each in pushed) == [0] * 4 + [1] * 4


@pytest.mark.parametrize("wrong", [{"batch_events": 0}, {"batch_bytes": 8 << 20}, {"in_flight": 0}])
def test_options_out_of_range_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ModelError, match=next(iter(wrong))):
        ProducerOptions(**wrong)  # type: ignore[arg-type]


def test_a_text_is_not_a_list_of_topics() -> None:
    with consuming(make_cluster(), topics=()) as consumer, pytest.raises(ModelError, match="one topic"):
        consumer.subscribe("orders")


def test_the_largest_batches_still_fit() -> None:
    cluster = make_cluster()
    largest = ProducerOptions(batch_events=10_000, batch_bytes=8_300_000)
    sizes = {"batch_events": largest.batch_events, "batch_bytes": largest.batch_bytes}
    with producing(cluster, **sizes, linger_ms=FOR_EVER_MS) as producer, consuming(cluster) as consumer:
        for _ in range(10_000):
            producer.push(Record("orders", b"x" * 800, partition=0))
        producer.flush(30)
        assert producer.metrics()["batches"] == 1
        assert len(pull(consumer, 10_000)) == 10_000
