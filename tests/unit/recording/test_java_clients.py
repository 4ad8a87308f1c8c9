"""A recorded Java producer whose process only answers: the events, and what errors say of their calls."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.brokers import fake_java
from tests.unit.recording.histories import read_back
from veristream.brokers.java.process import JavaError
from veristream.brokers.java.producer import GroupMember
from veristream.history.events import NONE, Operation, Outcome
from veristream.recording.kafka import java
from veristream.recording.kafka.group_metadata import GroupMetadata
from veristream.recording.kafka.java import RecordedJavaProducer
from veristream.recording.recording import Recording

ANSWER_S = 20.0
ERRORS = "org.apache.kafka.common.errors."


@dataclass(frozen=True)
class Place:
    topic: str
    partition: int
    offset: int


@pytest.mark.parametrize(
    ("name", "queued", "outcome"),
    [
        (f"{ERRORS}TimeoutException", True, Outcome.INDEFINITE),
        (f"{ERRORS}InvalidProducerEpochException", True, Outcome.INDEFINITE),
        (f"{ERRORS}RecordTooLargeException", True, Outcome.FAIL),
        (f"{ERRORS}TransactionAbortedException", True, Outcome.FAIL),
        ("java.lang.IllegalStateException", False, Outcome.FAIL),
        ("ProcessEnded", True, Outcome.INDEFINITE),
    ],
)
def test_only_what_is_certain_failed(name: str, queued: bool, outcome: Outcome) -> None:
    assert java.of_send(JavaError({"error": name, "queued": queued})) is outcome


def test_what_a_commit_did_not_do() -> None:
    def of(answer: dict[str, object]) -> tuple[Outcome, Outcome]:
        error = JavaError(answer)
        return java.of_commit(error), java.of_transaction(error)

    assert of({"error": f"{ERRORS}IllegalGenerationException"}) == (Outcome.FAIL, Outcome.INDEFINITE)
    assert of({"error": f"{ERRORS}TimeoutException"}) == (Outcome.INDEFINITE, Outcome.INDEFINITE)
    assert of({"error": "x.KafkaException", "must_abort": True}) == (Outcome.INDEFINITE, Outcome.FAIL)


def test_the_events_are_those_of_the_other_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, fake_java.__file__]
    monkeypatch.setattr("veristream.brokers.java.producer.find_program", lambda: None)
    monkeypatch.setattr("veristream.brokers.java.producer.client_command", lambda program: command)
    with Recording(tmp_path / "h", "kafka") as recording:
        config = {"transactional.id": "id"}
        producer = RecordedJavaProducer(config, recording, "producer-0", folder=tmp_path)
        group = GroupMetadata(GroupMember("g"), recording.group("g"))
        producer.init_transactions(ANSWER_S)
        producer.begin_transaction()
        producer.produce("t", b"0", partition=1)
        producer.send_offsets_to_transaction([Place("in", 0, 9)], group, ANSWER_S)
        producer.abort_transaction(ANSWER_S)
        producer.begin_transaction()
        producer.produce("refused", b"1", partition=0)
        producer.produce("kept", b"2", partition=0)
        with pytest.raises(JavaError):
            producer.commit_transaction(ANSWER_S)
        assert producer.flush(ANSWER_S) == 0
        producer.close(ANSWER_S)
        recording.finish()
    manifest, events = read_back(tmp_path / "h")
    assert manifest.complete
    streams = [each.name for each in manifest.streams]
    ended = [each for each in events if each.outcome is not Outcome.INVOKE]
    assert {(each.operation, each.outcome, each.error) for each in ended} == {
        (Operation.OPEN, Outcome.OK, ""),
        (Operation.BEGIN, Outcome.OK, ""),
        (Operation.SEND, Outcome.OK, ""),
        (Operation.COMMIT, Outcome.FAIL, "ABORTED"),
        (Operation.END_ABORT, Outcome.OK, ""),
        (Operation.SEND, Outcome.FAIL, "IllegalStateException"),
        (Operation.SEND, Outcome.INDEFINITE, "TimeoutException"),
        (Operation.END_COMMIT, Outcome.FAIL, "ProducerFencedException"),
        (Operation.CLOSE, Outcome.OK, ""),
    }
    sends = [each for each in ended if each.operation is Operation.SEND]
    assert {
        (streams[each.stream], each.partition, each.offset, each.number, each.transaction, each.epoch)
        for each in sends
    } == {("t", 1, 44, 0, 0, 0), ("refused", 0, NONE, 1, 1, 1), ("kept", 0, NONE, 2, 1, 1)}
    begins = [(each.transaction, each.epoch) for each in ended if each.operation is Operation.BEGIN]
    assert begins == [(0, 0), (1, 1)]
