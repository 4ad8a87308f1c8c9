"""Recorded clients of Kafka without a broker: outcomes of errors, settings, and a simulated cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.unit.recording.histories import read_back
from veristream.errors import ModelError
from veristream.history.events import NONE, Event, Operation, Outcome
from veristream.history.identity import HEADER, decode
from veristream.recording.digest import digest
from veristream.recording.kafka import outcomes
from veristream.recording.kafka.consumer import RecordedConsumer
from veristream.recording.kafka.producer import RecordedProducer
from veristream.recording.kafka.reading import read_to_end
from veristream.recording.kafka.running import RunningKafka
from veristream.recording.kafka.settings import Settings, read_settings
from veristream.recording.recording import Recording

SIMULATED = {"test.mock.num.brokers": 1, "bootstrap.servers": "none:1"}
"""librdkafka's own cluster, inside the client's process."""


@pytest.mark.parametrize(
    ("code", "once", "outcome"),
    [
        (KafkaError._MSG_TIMED_OUT, False, Outcome.INDEFINITE),
        (KafkaError._MSG_TIMED_OUT, True, Outcome.INDEFINITE),
        (KafkaError._TRANSPORT, True, Outcome.INDEFINITE),
        (KafkaError._PURGE_INFLIGHT, True, Outcome.INDEFINITE),
        (KafkaError.REQUEST_TIMED_OUT, True, Outcome.INDEFINITE),
        (KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, True, Outcome.INDEFINITE),
        (KafkaError.NOT_ENOUGH_REPLICAS, False, Outcome.INDEFINITE),
        (KafkaError.NOT_ENOUGH_REPLICAS, True, Outcome.FAIL),
        (KafkaError.NOT_LEADER_FOR_PARTITION, True, Outcome.FAIL),
        (KafkaError.MSG_SIZE_TOO_LARGE, False, Outcome.FAIL),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, False, Outcome.FAIL),
        (KafkaError._FENCED, False, Outcome.INDEFINITE),
    ],
)
def test_only_what_is_certain_failed(code: int, once: bool, outcome: Outcome) -> None:
    assert outcomes.of_send(KafkaError(code), once=once) is outcome


def test_commits_fail_where_the_group_refuses_them() -> None:
    assert outcomes.of_commit(KafkaError(KafkaError.ILLEGAL_GENERATION)) is Outcome.FAIL
    assert outcomes.of_commit(KafkaError(KafkaError._TIMED_OUT)) is Outcome.INDEFINITE
    assert outcomes.of_commit(None) is Outcome.INDEFINITE


def test_a_transaction_that_has_to_be_aborted_was_not_committed() -> None:
    abort = KafkaError(KafkaError.INVALID_TXN_STATE, "no", txn_requires_abort=True)
    assert outcomes.of_transaction(abort) is Outcome.FAIL
    assert outcomes.of_transaction(KafkaError(KafkaError._FENCED, "no", fatal=True)) is Outcome.INDEFINITE
    assert outcomes.error_of(KafkaException(abort)) is abort
    assert outcomes.error_of(KafkaException("no")) is None
    assert outcomes.name_of(abort) == "INVALID_TXN_STATE"


@pytest.mark.parametrize(
    ("settings", "once"),
    [
        ({}, False),
        ({"retries": 0}, True),
        ({"message.send.max.retries": "0"}, True),
        ({"retries": 3}, False),
    ],
)
def test_a_producer_tries_once_if_it_is_told_so(settings: dict[str, Any], once: bool) -> None:
    assert outcomes.tries_once(settings) is once


def test_settings_belong_to_something() -> None:
    flat = {"broker.a.b": "1", "topic.c": "2", "producer.acks": "1", "consumer.d": "3", "feature.e": "1"}
    settings = read_settings(flat)
    assert settings == Settings({"a.b": "1"}, {"c": "2"}, {"acks": "1"}, {"d": "3"}, {"e": "1"})
    assert settings.flat() == flat
    for wrong in ("acks", "prodcer.acks", "producer.", ".acks"):
        with pytest.raises(ModelError, match="belongs to nothing"):
            read_settings({wrong: "1"})


def test_settings_that_the_client_does_not_know_are_refused(tmp_path: Path) -> None:
    with Recording(tmp_path / "h", "kafka") as recording:
        kafka = RunningKafka("127.0.0.1:1", Settings(producer={"aks": "1"}, consumer={"nope": "1"}))
        with pytest.raises(ModelError, match=r"for the producer: .*aks"):
            kafka.producer(recording, "p")
        with pytest.raises(ModelError, match=r"for the consumer: .*nope"):
            kafka.reader(recording, "r")
        with pytest.raises(ModelError, match="brokers that can be stopped"):
            _ = kafka.local
        with pytest.raises(ModelError, match="needs proxies"):
            _ = kafka.proxies


def of(events: list[Event], operation: Operation) -> list[Event]:
    return [each for each in events if each.operation is operation]


def test_a_simulated_cluster_is_recorded(tmp_path: Path) -> None:
    """What is sent is received with its identity and digest, and read to its end."""
    told: list[int] = []
    received: list[tuple[bytes | None, tuple[int, int]]] = []
    with Recording(tmp_path / "h", "kafka") as recording:
        producer = RecordedProducer(SIMULATED, recording, "p")
        address = next(iter(producer.list_topics(timeout=10).brokers.values()))
        for number in range(20):
            producer.produce(
                "t",
                b"event %d" % number,
                partition=number % 2,
                on_delivery=lambda error, message: told.append(message.offset()),
                headers={"mine": b"kept"},
            )
        producer.produce("t", "text", None, 0)
        assert len(producer) > 0
        assert producer.flush(10) == 0
        config = {"bootstrap.servers": f"{address.host}:{address.port}", "group.id": "g"}
        config |= {"enable.partition.eof": "true", "enable.auto.commit": "false"}
        config |= {"isolation.level": "read_uncommitted"}
        reader = RecordedConsumer(config, recording, "r", member=False)
        consume = reader.inner.consume

        def watched(count: int, seconds: float) -> Any:
            found = consume(count, seconds)
            for each in found:
                if each.error() is None:
                    headers = dict(each.headers())
                    assert each.value() == b"text" or headers["mine"] == b"kept"
                    received.append((each.value(), decode(headers[HEADER])))
            return found

        reader.__dict__["inner"] = _Watched(reader.inner, watched)
        read_to_end(recording, reader, "t", [0, 1])
        reader.close()
        producer.close()
        recording.finish()
    manifest, events = read_back(tmp_path / "h")
    sent, got = of(events, Operation.SEND), of(events, Operation.RECEIVE)
    assert len(told) == 20
    assert [each.outcome for each in sent].count(Outcome.OK) == 21
    assert len(sent) == 42
    assert {(each.producer, each.number) for each in got} == {(0, number) for number in range(21)}
    ok = {each.number: (each.partition, each.offset, each.digest) for each in sent if each.outcome}
    assert {each.number: (each.partition, each.offset, each.digest) for each in got} == ok
    assert ok[3][2] == digest(b"event 3")
    assert ok[20][2] == digest("text") == digest(b"text")
    assert dict(received)[b"event 3"] == (0, 3)
    ends = [each for each in of(events, Operation.READ_TO_END) if each.outcome is Outcome.OK]
    # Each is read, and then it is told how long it is.
    assert sorted((each.partition, each.number, each.offset) for each in ends) == [
        (0, 0, 11),
        (0, 11, 11),
        (1, 0, 10),
        (1, 10, 10),
    ]
    assert [each.isolation for each in manifest.processes] == ["", "read_uncommitted"]
    assert [each.group for each in got] == [NONE] * 21


class _Watched:
    """A consumer of which one method is another."""

    def __init__(self, inner: Any, consume: Any) -> None:
        self._inner = inner
        self.consume = consume

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_without_acknowledgements_no_offset_is_known(tmp_path: Path) -> None:
    with Recording(tmp_path / "h", "kafka") as recording:
        producer = RecordedProducer({**SIMULATED, "acks": 0}, recording, "p")
        producer.produce("t", b"x", partition=2)
        producer.close(10)
        recording.finish()
    _, events = read_back(tmp_path / "h")
    assert [(each.outcome, each.partition, each.offset) for each in of(events, Operation.SEND)] == [
        (Outcome.INVOKE, 2, NONE),
        (Outcome.OK, 2, NONE),
    ]


def test_a_message_that_is_not_even_queued_failed(tmp_path: Path) -> None:
    with Recording(tmp_path / "h", "kafka") as recording:
        settings = {**SIMULATED, "message.max.bytes": 2000}
        producer = RecordedProducer(settings, recording, "p")
        with pytest.raises(KafkaException):
            producer.produce("t", b"x" * 3000)
        producer.close(10)
    _, events = read_back(tmp_path / "h")
    sent = of(events, Operation.SEND)
    assert [(each.outcome, each.error) for each in sent] == [
        (Outcome.INVOKE, ""),
        (Outcome.FAIL, "MSG_SIZE_TOO_LARGE"),
    ]


def test_a_batch_is_recorded_too(tmp_path: Path) -> None:
    told: list[int | None] = []
    with Recording(tmp_path / "h", "kafka") as recording:
        producer = RecordedProducer({**SIMULATED, "message.max.bytes": 2000}, recording, "p")
        messages: list[dict[str, Any]] = [
            {"value": b"a"},
            {"value": b"x" * 3000},
            {"value": b"b", "key": b"k"},
        ]
        queued = producer.produce_batch(
            "t", messages, 1, on_delivery=lambda error, message: told.append(message.offset())
        )
        producer.close(10)
        recording.finish()
    assert (queued, told) == (2, [0, 1])
    assert [each["_error"].name() for each in messages if "_error" in each] == ["MSG_SIZE_TOO_LARGE"]
    _, events = read_back(tmp_path / "h")
    ended = {each.number: each.outcome for each in of(events, Operation.SEND) if each.outcome}
    assert ended == {0: Outcome.OK, 1: Outcome.FAIL, 2: Outcome.OK}


def test_what_nobody_can_deliver_is_indefinite(tmp_path: Path) -> None:
    errors: list[str] = []
    with Recording(tmp_path / "h", "kafka") as recording:
        config = {"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 200}
        producer = RunningKafka("127.0.0.1:1", Settings(producer={"message.timeout.ms": "200"})).producer(
            recording, "p", **{key.replace(".", "_"): value for key, value in config.items()}
        )
        producer.produce("t", b"x", on_delivery=lambda error, message: errors.append(error.name()))
        producer.close(10)
    _, events = read_back(tmp_path / "h")
    (invoke, end) = of(events, Operation.SEND)
    assert (invoke.outcome, end.outcome, end.error) == (
        Outcome.INVOKE,
        Outcome.INDEFINITE,
        "_MSG_TIMED_OUT",
    )
    assert errors == ["_MSG_TIMED_OUT"]
    assert end.partition == invoke.partition == NONE


def test_transactions_of_a_simulated_cluster(tmp_path: Path) -> None:
    with Recording(tmp_path / "h", "kafka") as recording:
        producer = RecordedProducer({**SIMULATED, "transactional.id": "id"}, recording, "p")
        producer.init_transactions(10)
        for number in range(4):
            producer.begin_transaction()
            producer.produce("t", b"%d" % number, partition=0)
            producer.flush(10)
            if number % 2:
                producer.abort_transaction(10)
            else:
                producer.commit_transaction(10)
        producer.close(10)
        recording.finish()
    manifest, events = read_back(tmp_path / "h")
    assert manifest.groups == ("id",)
    ok = [each for each in events if each.outcome is Outcome.OK]
    assert [(each.operation.name, each.transaction) for each in ok] == [
        ("OPEN", NONE),
        ("BEGIN", 0), ("SEND", 0), ("END_COMMIT", 0),
        ("BEGIN", 1), ("SEND", 1), ("END_ABORT", 1),
        ("BEGIN", 2), ("SEND", 2), ("END_COMMIT", 2),
        ("BEGIN", 3), ("SEND", 3), ("END_ABORT", 3),
        ("CLOSE", NONE),
    ]  # fmt: skip
    assert {each.epoch for each in ok[:-1]} == {0}
    assert {each.group for each in of(events, Operation.BEGIN)} == {0}
