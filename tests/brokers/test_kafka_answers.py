"""Answers of a real broker that are lost or lack the offset of an event: the offset is found anyway."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.brokers.patience import PATIENCE_S, PATIENT
from tests.brokers.proxy import Proxy, call_duplicate, keep_back, pass_on
from tests.missing import is_missing
from veristream.brokers.kafka import KafkaClusters, find_program
from veristream.errors import EnvironmentFailure
from veristream.kabis.client.kafka.pushing import KafkaPusher
from veristream.kabis.client.options import ProducerOptions
from veristream.kabis.cluster.processes import wait_until
from veristream.kabis.kafka.reading import PartitionReader
from veristream.kabis.kafka.settings import KafkaSettings
from veristream.kabis.kafka.topics import Topics
from veristream.kabis.log.kafka.log import KafkaLog
from veristream.kabis.protocol.records import Record

pytestmark = [pytest.mark.brokers, pytest.mark.xdist_group("kafka")]


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Proxy, KafkaClusters]]:
    """A cluster that advertises a proxy's address to its clients."""
    try:
        find_program()
    except EnvironmentFailure as missing:
        is_missing(missing.render())
    with Proxy() as proxy:
        advertised = {"advertised.listeners": f"CLIENT://127.0.0.1:{proxy.port}"}
        with KafkaClusters(tmp_path_factory.mktemp("kafka"), advertised) as clusters:
            clusters.create(1)
            clusters.start()
            proxy.target = int(clusters.address("kafka-1").rpartition(":")[2])
            yield proxy, clusters


@pytest.fixture
def proxy(proxied: tuple[Proxy, KafkaClusters]) -> Iterator[Proxy]:
    """The proxy, which forwards everything until told otherwise."""
    yield proxied[0]
    proxied[0].produced = pass_on


@pytest.fixture
def settings(proxy: Proxy) -> KafkaSettings:
    return KafkaSettings(f"127.0.0.1:{proxy.port}")


@pytest.fixture
def pusher(settings: KafkaSettings) -> Iterator[KafkaPusher]:
    pusher = KafkaPusher(settings, ProducerOptions(), lambda: None)
    yield pusher
    pusher.close()


def contents(settings: KafkaSettings, topic: str) -> list[bytes | None]:
    """Returns the messages of the topic."""
    reader = PartitionReader(settings, topic)
    try:
        return [message.value() for message in reader.messages(*reader.bounds(), PATIENCE_S)]
    finally:
        reader.close()


def wait_for(settings: KafkaSettings, topic: str, count: int) -> None:
    """Waits until the broker has at least `count` messages."""
    topics = Topics(settings)
    left = wait_until(lambda: [] if topics.ends(topic, 1)[0] >= count else [topic], PATIENCE_S)
    assert left == []


def test_an_answer_that_is_lost_is_asked_for_again(
    proxy: Proxy, settings: KafkaSettings, pusher: KafkaPusher, topic: str
) -> None:
    plain = pusher.topic(topic, 1, None)
    assert plain.push(Record(topic, b"0")).result(PATIENCE_S).index == 0
    proxy.produced = keep_back
    lost = plain.push(Record(topic, b"1"))
    wait_for(settings, topic, 2)
    proxy.produced = pass_on
    proxy.cut()
    assert lost.result(PATIENCE_S).index == 1
    assert plain.push(Record(topic, b"2")).result(PATIENCE_S).index == 2
    assert contents(settings, topic) == [b"0", b"1", b"2"]


def test_an_acknowledgement_without_an_offset_is_looked_up(
    proxy: Proxy, settings: KafkaSettings, pusher: KafkaPusher, topic: str
) -> None:
    plain = pusher.topic(topic, 1, None)
    pushed = [plain.push(Record(topic, b"before"))]
    pushed[0].result(PATIENCE_S)
    proxy.produced = call_duplicate(topic)
    for number in range(3):
        pushed.append(plain.push(Record(topic, b"%d" % number)))
        pushed[-1].result(PATIENCE_S)
    proxy.produced = pass_on
    pushed.append(plain.push(Record(topic, b"after")))
    assert [each.result(PATIENCE_S).index for each in pushed] == [0, 1, 2, 3, 4]
    assert contents(settings, topic) == [b"before", b"0", b"1", b"2", b"after"]
    assert (pusher.acknowledged, pusher.failed) == (5, 0)


def test_it_is_found_among_events_of_others(
    proxy: Proxy, settings: KafkaSettings, pusher: KafkaPusher, topic: str
) -> None:
    plain = pusher.topic(topic, 1, None)
    proxy.produced = call_duplicate(topic)
    other = Producer({"bootstrap.servers": settings.bootstrap})
    told: dict[bytes, int] = {}
    for number in range(3):
        other.produce(topic, b"other %d" % number, partition=0)
        assert other.flush(PATIENCE_S) == 0
        value = b"ours %d" % number
        told[value] = plain.push(Record(topic, value)).result(PATIENCE_S).index
    assert told == {b"ours 0": 1, b"ours 1": 3, b"ours 2": 5}
    assert len(contents(settings, topic)) == 6


def test_a_log_reads_what_it_was_not_told(
    proxy: Proxy, settings: KafkaSettings, topic: str, folder: Path
) -> None:
    with KafkaLog(settings, topic, folder, PATIENT) as log:
        log.append(b"0")
        assert log.sync(now=True) == 1
        proxy.produced = call_duplicate(topic)
        for number in range(1, 4):
            assert log.append(b"%d" % number) == number
            assert log.sync(now=True) == log.durable == number + 1
        proxy.produced = pass_on
        log.append(b"4")
        assert log.sync(now=True) == 5
    with KafkaLog(settings, topic, folder, PATIENT) as log:
        assert [log.read(number) for number in range(5)] == [b"%d" % number for number in range(5)]


def restart(proxied: tuple[Proxy, KafkaClusters], settings: KafkaSettings, topic: str) -> None:
    """Restarts a broker cleanly once it has more messages than it has acknowledged."""
    proxy, clusters = proxied
    wait_for(settings, topic, 2)
    clusters.stop()
    proxy.produced = pass_on
    clusters.start()


def test_a_log_outlives_a_restart_of_a_broker_whose_answers_were_lost(
    proxied: tuple[Proxy, KafkaClusters], settings: KafkaSettings, topic: str, folder: Path
) -> None:
    with KafkaLog(settings, topic, folder, PATIENT) as log:
        log.append(b"0")
        assert log.sync(now=True) == 1
        proxied[0].produced = keep_back
        for number in range(1, 6):
            log.append(b"%d" % number)
            assert log.sync() == 1
        restart(proxied, settings, topic)
        assert log.sync(now=True) == 6
    with KafkaLog(settings, topic, folder, PATIENT) as log:
        assert [log.read(number) for number in range(6)] == [b"%d" % number for number in range(6)]


def test_a_producer_outlives_a_restart_of_a_broker_whose_answers_were_lost(
    proxied: tuple[Proxy, KafkaClusters], settings: KafkaSettings, pusher: KafkaPusher, topic: str
) -> None:
    plain = pusher.topic(topic, 1, None)
    pushed = [plain.push(Record(topic, b"0"))]
    assert pushed[0].result(PATIENCE_S).index == 0
    proxied[0].produced = keep_back
    for number in range(1, 6):
        pushed.append(plain.push(Record(topic, b"%d" % number)))
        pusher.parcels()  # so that none waits for the next one
        with pytest.raises(TimeoutError):
            pushed[-1].result(0.5)
    restart(proxied, settings, topic)
    assert [each.result(PATIENCE_S).index for each in pushed] == list(range(6))
    assert contents(settings, topic) == [b"%d" % number for number in range(6)]
