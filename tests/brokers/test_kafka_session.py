"""Kabis on three real Kafka clusters: validated topics go through the parties, others directly to Kafka."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.brokers.streams import PATIENCE_S, UNVALIDATED, create, pull, values
from tests.kabis.session.console import Console
from veristream.brokers.kafka import KafkaClusters
from veristream.errors import ModelError
from veristream.kabis.client.errors import BelowLowWaterError, DeliveryTimeoutError
from veristream.kabis.client.options import ConsumerOptions, ProducerOptions
from veristream.kabis.client.producer.producer import KabisProducer
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.cluster import StartOptions
from veristream.kabis.cluster.processes import last_words, wait_until
from veristream.kabis.kafka.failures import KafkaFailure
from veristream.kabis.kafka.settings import KafkaSettings
from veristream.kabis.kafka.topics import Topics
from veristream.kabis.ledger.event_receipts import export_receipt, verify_receipt
from veristream.kabis.log.kafka.log import topic_of
from veristream.kabis.protocol.members import Memberships
from veristream.kabis.protocol.records import Record
from veristream.kabis.protocol.seal import Sealer, TopicKeys

pytestmark = [pytest.mark.brokers, pytest.mark.xdist_group("kafka")]

STATUSES_MAX = 60


def test_validated_events_are_delivered_in_order_with_receipts(console: Console, access: Access) -> None:
    topic = create(console, "--partitions", 2)
    with access.producer(journal=False) as producer:
        pushed = [
            producer.push(Record(topic, b"event %d" % number, partition=number % 2))
            for number in range(2000)
        ]
        producer.flush(PATIENCE_S)
    assert sorted(each.result(0).index for each in pushed) == sorted([*range(1000), *range(1000)])
    verify_receipt(export_receipt(pushed[17].result(0).receipt()), access.genesis)
    events = pull(access, topic, 2000)
    for partition in (0, 1):
        assert values(events, partition) == [b"event %d" % number for number in range(partition, 2000, 2)]
    console.cluster.stop([party.name for party in access.genesis.storage])
    console.cluster.start(
        StartOptions(attended=False), [party.name for party in access.genesis.storage]
    )  # which replays all of it from Kafka
    assert values(pull(access, topic, 2000)) == values(events)


def test_others_are_plain_kafka_at_their_exact_offsets(console: Console, access: Access) -> None:
    topic = create(console, "--unvalidated")
    with access.producer(journal=False) as producer:
        first = producer.push(Record(topic, b"one", b"key", (("name", b"1"), ("none", None)), 1_234_567))
        assert first.result(PATIENCE_S).index == 0
        pushed = [producer.push(Record(topic, b"event %d" % number)) for number in range(5000)]
        producer.flush(PATIENCE_S)
        assert producer.metrics()["acknowledged"] == 5001
        assert [each.result(0).index for each in pushed] == list(range(1, 5001))
        with pytest.raises(ModelError, match="not validated"):
            first.result(0).receipt()
    events = pull(access, topic, 5001, UNVALIDATED)
    assert events[0][:5] == (0, b"key", b"one", (("name", b"1"), ("none", None)), 1_234_567)
    assert [(event.index, event.value) for event in events[1:]] == [
        (number + 1, b"event %d" % number) for number in range(5000)
    ]
    assert pull(access, topic, 0) == [], "who validates gets nothing of it"
    bootstrap = access.kafka()[Memberships(access.genesis.members).party_of(topic)].bootstrap
    plain = Consumer({"bootstrap.servers": bootstrap, "group.id": "anybody", "enable.auto.commit": False})
    plain.assign([TopicPartition(topic, 0, 4999)])
    assert [message.value() for message in plain.consume(2, PATIENCE_S)] == [b"event 4998", b"event 4999"]
    plain.close()


def test_many_with_one_call_stand_where_one_by_one_would(console: Console, access: Access) -> None:
    topic = create(console, "--unvalidated")
    sent = [b"event %d" % number for number in range(6000)]
    with access.producer(journal=False) as producer:
        parts = []
        for start in range(0, 6000, 600):
            parts.append(producer.push_all(topic, sent[start : start + 500]))
            parts.append(producer.push_all(topic, sent[start + 500 : start + 599], key=b"key"))
            producer.push(Record(topic, sent[start + 599], headers=(("one", b"1"),)))
        producer.flush(PATIENCE_S)
        assert producer.metrics()["acknowledged"] == 6000
        told = [each.index for part in parts for each in part.result(0)]
        assert told == [number for number in range(6000) if number % 600 != 599]
    events = pull(access, topic, 6000, UNVALIDATED)
    assert [(event.index, event.value) for event in events] == list(enumerate(sent))
    keyed = [event.index for event in events if event.key == b"key"]
    assert keyed == [number for number in range(6000) if 500 <= number % 600 < 599]


def test_what_kafka_let_go_is_below_the_mark(console: Console, access: Access) -> None:
    topic = create(console, "--unvalidated")
    with access.producer(journal=False) as producer:
        for number in range(10):
            producer.push(Record(topic, b"%d" % number))
        producer.flush(PATIENCE_S)
    topics = Topics(access.kafka()[Memberships(access.genesis.members).party_of(topic)])
    place = TopicPartition(topic, 0, 4)
    topics.admin.delete_records([place])[place].result()
    assert [event.index for event in pull(access, topic, 6, UNVALIDATED)] == [4, 5, 6, 7, 8, 9]
    with access.consumer(options=UNVALIDATED) as consumer:
        consumer.subscribe([topic])
        assert consumer.beginning_offsets([(topic, 0)]) == {(topic, 0): 4}
        assert consumer.end_offsets([(topic, 0)]) == {(topic, 0): 10}
        consumer.seek((topic, 0), 2)
        with pytest.raises(BelowLowWaterError, match="index 2 is below the low-water mark 4"):
            consumer.pull(timeout=PATIENCE_S)


def test_two_producers_in_one_partition_learn_their_own_offsets(console: Console, access: Access) -> None:
    topic = create(console, "--unvalidated")
    told: dict[bytes, int] = {}

    def push(producer: KabisProducer, name: bytes) -> None:
        pushed = {}
        for number in range(10_000):
            value = b"%s %d" % (name, number)
            pushed[value] = producer.push(Record(topic, value))
        producer.flush(PATIENCE_S)
        told.update({value: each.result(0).index for value, each in pushed.items()})

    with access.producer(journal=False) as one, access.producer("consumer", journal=False) as other:
        threads = [threading.Thread(target=push, args=each) for each in ((one, b"one"), (other, b"other"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    events = pull(access, topic, 20_000, UNVALIDATED)
    assert {event.value: event.index for event in events} == told
    assert len(told) == 20_000


def test_a_sealed_topic_is_read_with_its_keys_only(console: Console, access: Access) -> None:
    topic = create(console, "--unvalidated")
    sealer = Sealer(access.genesis.chain_id, TopicKeys(topic, 1, {1: bytes(32)}))
    with access.producer(options=ProducerOptions(sealers={topic: sealer}), journal=False) as producer:
        producer.push(Record(topic, b"secret", b"key", (("name", b"1"),), 5)).result(PATIENCE_S)
    (sealed,) = pull(access, topic, 1, UNVALIDATED)
    assert sealed.value is not None and b"secret" not in sealed.value
    (clear,) = pull(access, topic, 1, ConsumerOptions(validate=False, sealers={topic: sealer}))
    assert clear[:4] == (0, b"key", b"secret", (("name", b"1"),))


def test_another_number_of_partitions_is_said_by_everybody(console: Console, access: Access) -> None:
    topic = create(console, "--unvalidated", "--partitions", 2)
    topics = Topics(access.kafka()[Memberships(access.genesis.members).party_of(topic)])
    topics.require(topic, 5, {})
    said = "has 5 partitions, and Kabis expects 2"
    with access.producer(journal=False) as producer, pytest.raises(ModelError, match=said):
        producer.push(Record(topic, b"nowhere"))
    with pytest.raises(ModelError, match=said):
        pull(access, topic, 1, UNVALIDATED)


def test_kafka_stopped_for_good_fails_the_event_with_the_reason(
    console: Console, access: Access, kafkas: KafkaClusters
) -> None:
    topic, other = create(console, "--unvalidated"), create(console, "--unvalidated")
    options = ProducerOptions(delivery_timeout_ms=10_000)
    with access.producer(options=options, journal=False) as producer:
        producer.push(Record(topic, b"kept")).result(PATIENCE_S)
        kafkas.stop()
        with pytest.raises(DeliveryTimeoutError, match=f"{topic}-0.*no Kafka answers at"):
            producer.push(Record(topic, b"lost, and said so")).result(PATIENCE_S)
        assert (producer.metrics()["acknowledged"], producer.metrics()["failed"]) == (1, 1)
        with pytest.raises(KafkaFailure, match="no Kafka answers at"):
            producer.push(Record(other, b"never taken"))
        kafkas.start()
        assert producer.push(Record(topic, b"again")).result(PATIENCE_S).index == 1
    assert values(pull(access, topic, 2, UNVALIDATED)) == [b"kept", b"again"]


def test_a_topic_that_changes_its_trust_goes_the_other_way(console: Console, access: Access) -> None:
    topic = create(console, "--unvalidated")
    with access.producer(journal=False) as producer:
        producer.push(Record(topic, b"plain")).result(PATIENCE_S)
        console.do("topic", "set", topic, "--validated")
        deadline_s = time.monotonic() + PATIENCE_S
        while not (last := producer.push(Record(topic, b"perhaps")).result(PATIENCE_S)).validated:
            assert time.monotonic() < deadline_s
        verify_receipt(export_receipt(last.receipt()), access.genesis)
    assert pull(access, topic, 1)[-1].value == b"perhaps"


def test_a_forged_record_stops_its_party_and_nobody_else(
    console: Console, access: Access, kafkas: KafkaClusters
) -> None:
    topic = create(console)
    chain_id = access.genesis.chain_id
    with access.producer(journal=False) as producer:
        producer.push(Record(topic, b"before")).result(PATIENCE_S)
        forger = Producer({"bootstrap.servers": kafkas.address("kafka-1")})
        forger.produce(topic_of(chain_id, "storage-1"), b"forged", partition=0)
        assert forger.flush(PATIENCE_S) == 0
        producer.push(Record(topic, b"after")).result(PATIENCE_S)
    party = console.cluster.find().get("storage-1")
    if party is not None:
        assert wait_until(lambda: [party] if party.is_alive() else [], PATIENCE_S) == []
    message, _ = last_words(console.data / "storage-1")
    assert f"another client writes to the topic {topic_of(chain_id, 'storage-1')}" in message
    assert values(pull(access, topic, 2)) == [b"before", b"after"]
    refused = console("up", "--detach")
    assert refused.code == 3
    assert "is damaged at offset" in refused.told
    console.do("up", "--detach", "--repair")
    told: list[str] = []  # the status of a party that does not answer quickly is missing
    while not any("storage-1 lost" in each for each in told):
        assert len(told) < STATUSES_MAX, told[-1]
        told.append(console.do("status").output)
    assert values(pull(access, topic, 2)) == [b"before", b"after"]


def test_wrong_credentials_are_said_once_and_clearly(tmp_path: Path, topic: str) -> None:
    """A cluster that requires a password, and a client with another one."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    guarded = {
        "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": (
            f'{module} required username="kabis" password="right" user_kabis="right";'
        ),
    }
    with KafkaClusters(tmp_path, guarded) as clusters:
        clusters.create(1)
        clusters.start()
        sasl = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.username": "kabis"}
        address = clusters.address("kafka-1")
        Topics(KafkaSettings(address, {**sasl, "sasl.password": "right"})).require(topic, 1, {})
        with pytest.raises(KafkaFailure, match=f"Kafka at {address} refuses the credentials"):
            Topics(KafkaSettings(address, {**sasl, "sasl.password": "wrong"})).require(topic, 1, {})
