"""Recordings of Kafka's Java producer on a real broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.brokers.test_kafka_recording import examples
from tests.missing import is_missing
from tests.unit.recording.histories import read_back
from veristream.brokers.java.build import find_client
from veristream.brokers.java.process import JavaError
from veristream.brokers.java.producer import GroupMember
from veristream.brokers.kafka import find_program
from veristream.errors import EnvironmentFailure, ModelError
from veristream.history.events import Operation, Outcome
from veristream.recording.kafka.group_metadata import GroupMetadata
from veristream.recording.kafka.running import RunningKafka, local_kafka
from veristream.recording.kafka.settings import Settings
from veristream.recording.recording import Recording

pytestmark = [pytest.mark.brokers, pytest.mark.xdist_group("late-write")]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningKafka]:
    """One broker."""
    try:
        find_client(find_program())
    except EnvironmentFailure as missing:
        is_missing(missing.render())
    with local_kafka(tmp_path_factory.mktemp("java"), Settings(), 1, proxied=False) as kafka:
        yield kafka


def test_the_example_with_java_records(
    kafka: RunningKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, example = examples()
    kafka.create_topic("orders")
    monkeypatch.chdir(tmp_path)
    exec(example.replace("127.0.0.1:9092", kafka.bootstrap), {})
    manifest, events = read_back(tmp_path / "history")
    assert manifest.complete
    ended = [(each.operation, each.outcome) for each in events if each.outcome is not Outcome.INVOKE]
    assert Counter(ended) == {
        (Operation.OPEN, Outcome.OK): 1,
        (Operation.BEGIN, Outcome.OK): 1,
        (Operation.SEND, Outcome.OK): 1,
        (Operation.END_COMMIT, Outcome.OK): 1,
        (Operation.CLOSE, Outcome.OK): 1,
    }
    assert {each.epoch for each in events if each.operation is Operation.SEND} == {0}


def test_a_java_producer_is_fenced_and_commits_offsets(kafka: RunningKafka, tmp_path: Path) -> None:
    """The offsets are committed with the transaction of the second producer, which fences the first."""
    kafka.create_topic("java-fenced")
    with Recording(tmp_path / "h", "kafka") as recording:
        first, second = (
            kafka.java_producer(recording, f"producer-{each}", transactional_id="java-fenced")
            for each in range(2)
        )
        for each in (first, second):
            each.init_transactions(30)
            each.begin_transaction()
        first.produce("java-fenced", b"zombie", partition=0)
        with pytest.raises(JavaError) as fenced:
            first.commit_transaction(30)
        assert (fenced.value.name, fenced.value.must_abort) == ("InvalidProducerEpochException", True)
        group = GroupMetadata(GroupMember("java-group"), recording.group("java-group"))
        second.produce("java-fenced", b"real", partition=0)
        second.send_offsets_to_transaction([TopicPartition("java-fenced", 0, 7)], group, 30)
        second.commit_transaction(30)
        second.close()
        first.kill()
    client = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "java-group"})
    (committed,) = client.committed([TopicPartition("java-fenced", 0)], timeout=30)
    client.close()
    assert committed.offset == 7
    _, events = read_back(tmp_path / "h")
    ends = [each for each in events if each.operation is Operation.END_COMMIT and each.outcome]
    assert {(each.process, each.outcome) for each in ends} == {
        (0, Outcome.FAIL),  # its client knows that it has to abort
        (1, Outcome.OK),
    }
    commits = [each for each in events if each.operation is Operation.COMMIT and each.outcome]
    assert [(each.offset, each.outcome) for each in commits] == [(7, Outcome.OK)]


def test_a_java_setting_that_is_wrong_is_named(kafka: RunningKafka, tmp_path: Path) -> None:
    with (
        Recording(tmp_path / "h", "kafka") as recording,
        pytest.raises(ModelError, match="rejects its settings: Invalid value many for configuration acks"),
    ):
        kafka.java_producer(recording, "producer-0", acks="many")
