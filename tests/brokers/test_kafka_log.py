"""A storage party's log in a real Kafka: what it stores, and what it detects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.brokers.patience import PATIENCE_S, PATIENT
from veristream.brokers.kafka import KafkaClusters
from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.cluster.processes import wait_until
from veristream.kabis.kafka.failures import DamagedRecord, KafkaFailure
from veristream.kabis.kafka.settings import KafkaSettings
from veristream.kabis.kafka.topics import Topics
from veristream.kabis.log.disk.files import InUse
from veristream.kabis.log.disk.log import BelowRetention, Gap, LogRecord, Lost, Retention, TooLarge
from veristream.kabis.log.kafka.log import KafkaLog

pytestmark = [pytest.mark.brokers, pytest.mark.xdist_group("kafka")]


def payload(number: int) -> bytes:
    return b"%d " % number * (number % 7 + 1)


def fill(log: KafkaLog, count: int) -> None:
    positions = [log.append(payload(number)) for number in range(count)]
    assert positions == list(range(count))
    assert log.sync(now=True) == log.durable == log.end == count


def forge(kafka: KafkaSettings, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(topic, value, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def test_what_was_written_is_read_again_after_a_restart(
    kafka: KafkaSettings, topic: str, folder: Path
) -> None:
    expected = [LogRecord(number, payload(number)) for number in range(200)]
    with KafkaLog(kafka, topic, folder, PATIENT) as log:
        assert (log.start, log.end, log.durable) == (0, 0, 0)
        fill(log, 200)
        assert list(log.records()) == expected
        assert [log.read(number) for number in (0, 199, 77)] == [payload(0), payload(199), payload(77)]
    with KafkaLog(kafka, topic, folder, replace(PATIENT, cache_bytes=0)) as log:
        assert (log.start, log.end, log.durable) == (0, 200, 200)
        assert list(log.records()) == expected
        assert list(log.records(190, 195)) == expected[190:195]
        assert [log.read(number) for number in (150, 3, 199)] == [payload(150), payload(3), payload(199)]
        assert log.size_bytes == sum(15 + len(payload(number)) for number in range(200))
        assert log.append(b"more") == 200
        assert log.sync(now=True) == 201
        with pytest.raises(IndexError):
            log.read(201)


def test_a_record_that_is_too_large_is_refused_and_nothing_else(
    kafka: KafkaSettings, topic: str, folder: Path
) -> None:
    with KafkaLog(kafka, topic, folder, PATIENT) as log:
        largest = bytes(8 << 20)
        assert log.append(largest) == 0
        with pytest.raises(TooLarge):
            log.append(bytes(9 << 20))
        assert log.append(b"after") == 1
        assert log.sync(now=True) == 2
    with KafkaLog(kafka, topic, folder, PATIENT) as log:
        assert log.read(0) == largest
        assert log.read(1) == b"after"


def test_a_forged_record_is_named_and_nothing_is_confirmed_behind_it(
    kafka: KafkaSettings, topic: str, folder: Path
) -> None:
    with KafkaLog(kafka, topic, folder, PATIENT) as log:
        fill(log, 3)
        forge(kafka, topic, b"forged")
        assert log.append(b"behind it") == 3
        with pytest.raises(KafkaFailure, match=r"another client writes to .* our record 3 has offset 4"):
            log.sync(now=True)
        assert log.durable == 3
        with pytest.raises(KafkaFailure):
            log.append(b"never again")
    with (
        KafkaLog(kafka, topic, folder, PATIENT) as log,
        pytest.raises(DamagedRecord, match="damaged at offset 3") as seen,
    ):
        list(log.records())
    assert seen.value.position == 3
    with KafkaLog(kafka, topic, folder, replace(PATIENT, repair=True)) as log:
        assert list(log.records())[3:] == [Gap(3, 1), Gap(4, 1)]
    with KafkaLog(kafka, topic, folder, PATIENT) as log:  # a record marked as lost stays lost
        assert list(log.records())[3:] == [Gap(3, 1), Gap(4, 1)]
        with pytest.raises(Lost):
            log.read(3)
        assert log.append(b"on") == 5
        assert log.sync(now=True) == 6
        assert log.read(5) == b"on"


def test_a_byte_that_changes_in_kafkas_own_file_is_named(
    kafkas: KafkaClusters, kafka: KafkaSettings, topic: str, folder: Path
) -> None:
    with KafkaLog(kafka, topic, folder, PATIENT) as log:
        for number in range(5):  # one by one: Kafka verifies nothing within a batch
            log.append(b"payload-%d" % number)
            log.sync(now=True)
    kafkas.stop(["kafka-1"])
    (segment,) = (kafkas.folder / "kafka-1" / "data").glob(f"{topic}-0/*.log")
    data = segment.read_bytes()
    assert data.count(b"payload-2") == 1
    segment.write_bytes(data.replace(b"payload-2", b"payload-9"))
    kafkas.start(["kafka-1"])
    with KafkaLog(kafka, topic, folder, PATIENT) as log:
        with pytest.raises(DamagedRecord, match="damaged at offset 2: its checksum is wrong"):
            list(log.records())
        assert log.read(1) == b"payload-1"
        assert log.read(4) == b"payload-4"
    with KafkaLog(kafka, topic, folder, replace(PATIENT, repair=True)) as log:
        assert [entry for entry in log.records() if isinstance(entry, Gap)] == [Gap(2, 1)]


def test_a_topic_that_was_made_anew_is_noticed(kafka: KafkaSettings, topic: str, folder: Path) -> None:
    with KafkaLog(kafka, topic, folder, PATIENT) as log:
        fill(log, 4)
    topics = Topics(kafka)
    topics.admin.delete_topics([topic])[topic].result()
    assert wait_until(lambda: [topic] if topics.partitions(topic) else [], PATIENCE_S) == []
    with pytest.raises(
        DamagedRecord, match="damaged at offset 0: the topic ends there, and records up to 4"
    ):
        KafkaLog(kafka, topic, folder, PATIENT)
    with KafkaLog(kafka, topic, folder, replace(PATIENT, repair=True)) as log:
        assert (log.start, log.end) == (0, 0)


def test_the_oldest_go_and_the_rest_keep_their_places(
    kafka: KafkaSettings, topic: str, folder: Path
) -> None:
    with KafkaLog(kafka, topic, folder, PATIENT) as log:
        fill(log, 10)
        assert log.start_after(Retention(low_water=4)) == 4
        assert log.start_after(Retention(age_ms_max=3_600_000)) == 0
        assert log.start_after(Retention(size_bytes_max=15 + len(payload(9)))) == 9
        assert log.retain(Retention(low_water=4)) == log.start == 4
        with pytest.raises(BelowRetention):
            log.read(3)
        assert log.read(4) == payload(4)
    with KafkaLog(kafka, topic, folder, PATIENT) as log:
        assert (log.start, log.end) == (4, 10)
        assert list(log.records()) == [LogRecord(number, payload(number)) for number in range(4, 10)]


def test_a_folder_has_one_log_at_a_time(kafka: KafkaSettings, topic: str, folder: Path) -> None:
    with KafkaLog(kafka, topic, folder, PATIENT), pytest.raises(InUse):
        KafkaLog(kafka, topic, folder, PATIENT)


def test_a_topic_with_two_partitions_is_no_log(kafka: KafkaSettings, topic: str, folder: Path) -> None:
    Topics(kafka).require(topic, 2, {})
    with pytest.raises(ModelError, match=f"{topic} of Kafka at .* has 2 partitions, and Kabis expects 1"):
        KafkaLog(kafka, topic, folder, PATIENT)


def test_nobody_at_the_address_is_said_once_and_clearly(topic: str, folder: Path) -> None:
    with pytest.raises(EnvironmentFailure, match=r"no Kafka answers at 127\.0\.0\.1:1: .*refused"):
        KafkaLog(KafkaSettings("127.0.0.1:1"), topic, folder)


def test_kafka_away_for_a_while_loses_nothing(
    kafkas: KafkaClusters, kafka: KafkaSettings, topic: str, folder: Path
) -> None:
    with KafkaLog(kafka, topic, folder, PATIENT) as log:
        fill(log, 5)
        kafkas.kill("kafka-1")
        assert [log.append(b"later %d" % number) for number in range(5)] == [5, 6, 7, 8, 9]
        assert log.sync() == 5
        kafkas.start(["kafka-1"])
        assert log.sync(now=True) == 10
    with KafkaLog(kafka, topic, folder, PATIENT) as log:
        assert [log.read(position) for position in range(5, 10)] == [
            b"later %d" % each for each in range(5)
        ]


def test_kafka_away_for_good_is_said(
    kafkas: KafkaClusters, kafka: KafkaSettings, topic: str, folder: Path
) -> None:
    with KafkaLog(kafka, topic, folder, replace(PATIENT, message_timeout_ms=10_000)) as log:
        fill(log, 1)
        kafkas.stop(["kafka-1"])
        log.append(b"never")
        with pytest.raises(KafkaFailure, match=r"cannot write to .*no Kafka answers at"):
            log.sync(now=True)
        assert log.durable == 1
    kafkas.start(["kafka-1"])
