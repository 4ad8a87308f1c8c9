"""The paper's table 1, and the order of events."""

from __future__ import annotations

import pytest

from tests.kabis.client.world import consuming, make_cluster, producing, pull, values, wait_until
from veristream.errors import ModelError
from veristream.kabis.ledger.event_receipts import export_receipt, verify_receipt
from veristream.kabis.protocol.actions import SetTopic
from veristream.kabis.protocol.outcomes import Done
from veristream.kabis.protocol.records import Record


@pytest.mark.parametrize(
    ("topic", "validate", "delivered"),
    [("orders", True, True), ("orders", False, True), ("logs", False, True), ("logs", True, False)],
)
def test_table_1(topic: str, validate: bool, delivered: bool) -> None:
    cluster = make_cluster()
    with producing(cluster) as producer, consuming(cluster, [topic], validate=validate) as consumer:
        pushed = [producer.push(Record(topic, b"%d" % number, partition=0)) for number in range(5)]
        assert [each.result(30).index for each in pushed] == list(range(5))
        assert [each.result(30).validated for each in pushed] == [topic == "orders"] * 5
        if delivered:
            events = pull(consumer, 5)
            assert values(events) == [b"0", b"1", b"2", b"3", b"4"]
            assert [event.index for event in events] == list(range(5))
            assert {event.validated for event in events} == {validate}
            assert {event.producer for event in events} == {"alice" if validate else None}
        else:
            assert consumer.pull(0.2) == []
            assert consumer.assignment() == {("logs", 0)}


def test_order_is_that_of_the_indices_for_all_consumers() -> None:
    cluster = make_cluster()
    with producing(cluster, batch_events=7) as alice, producing(cluster, "bob", batch_events=3) as bob:
        for number in range(200):
            alice.push(Record("orders", b"a%d" % number, key=b"%d" % (number % 5)))
            bob.push(Record("orders", b"b%d" % number, key=b"%d" % (number % 7)))
        alice.flush(30)
        bob.flush(30)
    seen = []
    for validate in (True, True, False, False):
        with consuming(cluster, validate=validate) as consumer:
            seen.append(sorted(pull(consumer, 400), key=lambda event: event.partition))
    for events in seen:
        for partition in (0, 1):
            here = [event for event in events if event.partition == partition]
            assert [event.index for event in here] == list(range(len(here)))
            for letter in (b"a", b"b"):
                mine = [event.value for event in here if event.value and event.value[:1] == letter]
                numbers = [int(value[1:]) for value in mine]
                assert numbers == sorted(numbers), "first in, first out for each producer and partition"
    assert seen[0] == seen[1] and seen[2] == seen[3]
    assert sorted(event[1:3] for event in seen[0]) == sorted(event[1:3] for event in seen[2])


def test_an_acknowledged_event_has_a_receipt_that_needs_only_the_genesis() -> None:
    cluster = make_cluster()
    with producing(cluster) as producer:
        pushed = [producer.push(Record("orders", b"%d" % n, key=b"k", partition=1)) for n in range(3)]
        done = pushed[2].result(30)
        verified = verify_receipt(export_receipt(done.receipt()), cluster.genesis)
        assert (verified.event.value, verified.topic, verified.partition) == (b"2", "orders", 1)
        assert (verified.sequence, verified.time_ms) == (2, done.time_ms)
        plain = producer.push(Record("logs", b"x")).result(30)
        with pytest.raises(ModelError, match="not validated"):
            plain.receipt()


def test_a_policy_changes_at_run_time_for_everybody() -> None:
    cluster = make_cluster()
    with (
        producing(cluster) as producer,
        consuming(cluster, ["logs"]) as extended,
        consuming(cluster, ["logs"], validate=False, name="alice") as basic,
    ):
        assert not producer.push(Record("logs", b"before")).result(30).validated
        assert values(pull(basic, 1)) == [b"before"]
        assert cluster.act("admin", SetTopic("logs", 1, validated=True)) == Done()
        height = len(cluster.blocks)
        wait_until(
            lambda: not (min(each.metrics()["height"] for each in (producer, extended, basic)) < height)
        )
        done = producer.push(Record("logs", b"after")).result(30)
        assert done.validated and done.index == 0
        assert values(pull(extended, 1)) == [b"after"]
        assert values(pull(basic, 1)) == [b"after"]
        assert cluster.act("admin", SetTopic("logs", 1, validated=False)) == Done()
        wait_until(
            lambda: not (min(each.metrics()["height"] for each in (producer, extended, basic)) < height + 2)
        )
        assert not producer.push(Record("logs", b"at last")).result(30).validated
        assert values(pull(basic, 1)) == [b"at last"]
        assert extended.pull(0.1) == []
