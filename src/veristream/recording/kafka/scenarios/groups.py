"""A member of a group that dies between receiving and processing."""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka import KafkaException, Message, TopicPartition

from veristream.errors import EnvironmentFailure
from veristream.recording.kafka.consumer import RecordedConsumer
from veristream.recording.kafka.reading import read_to_end
from veristream.recording.kafka.running import RunningKafka
from veristream.recording.kafka.workloads import FLUSH_S, new_topic, payload, produce
from veristream.recording.recording import Recording

MESSAGES: Final = 40
PROCESSED: Final = 10
"""How many messages the first member processes of those that it received."""

PATIENCE_S: Final = 60.0
SESSION: Final = {"session_timeout_ms": "3000", "heartbeat_interval_ms": "500"}
AUTO: Final = "enable.auto.commit"


def member_dies(kafka: RunningKafka, recording: Recording) -> None:
    """A member receives all, processes a part and dies; another member takes over.

    If the client commits by itself, it has committed what it received; otherwise the member commits what it
    has processed, and the other one receives the rest again.
    """
    topic = new_topic("member-dies")
    kafka.create_topic(topic)
    producer = kafka.producer(recording, "producer-0")
    for number in range(MESSAGES):
        produce(producer, topic, payload(number), 0)
    producer.close(FLUSH_S)
    auto = kafka.settings.consumer.get(AUTO, "true") == "true"
    first = _join(kafka, recording, "member-0", topic, auto=auto)
    found = _receive(first, MESSAGES)
    for each in found[:PROCESSED]:
        first.processed(each)
    if auto:
        _wait_committed(first, topic)
    else:
        first.commit(message=found[PROCESSED - 1], asynchronous=False)
    with recording.incident("kill", "member-0"):
        first.crash()
        second = _join(kafka, recording, "member-1", topic, auto=auto)
        _take_over(second, topic)
        if not auto:
            second.commit(asynchronous=False)
    second.close()
    reader = kafka.reader(recording, "reader-0")
    read_to_end(recording, reader, topic, [0])
    reader.close()
    recording.finish()


def _join(
    kafka: RunningKafka, recording: Recording, name: str, topic: str, *, auto: bool
) -> RecordedConsumer:
    own = {**SESSION, "enable_auto_commit": str(auto).lower(), "auto_commit_interval_ms": "300"}
    client = kafka.member(recording, name, topic, **own)
    client.subscribe([topic])
    return client


def _receive(client: RecordedConsumer, count: int) -> list[Message]:
    found: list[Message] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while len(found) < count:
        found += [each for each in client.consume(count - len(found), 0.2) if each.error() is None]
        _keep_patience(deadline_s, f"only {len(found)} of {count} messages came")
    return found


def _wait_committed(client: RecordedConsumer, topic: str) -> None:
    """Polls until the client has committed all that it received, and was told so."""
    deadline_s = time.monotonic() + PATIENCE_S
    while client.last_commit(topic, 0) < MESSAGES:
        client.poll(0.1)
        _keep_patience(deadline_s, "the client did not commit by itself")


def _take_over(client: RecordedConsumer, topic: str) -> None:
    """Processes all that is left, once the group has given the partition to this member."""
    deadline_s = time.monotonic() + PATIENCE_S
    place = TopicPartition(topic, 0)
    while True:
        message = client.poll(0.2)
        if message is not None and message.error() is None:
            client.processed(message)
        if client.assignment() and message is None and _is_at_end(client, place):
            return
        _keep_patience(deadline_s, "the second member did not get the partition")


def _is_at_end(client: RecordedConsumer, place: TopicPartition) -> bool:
    try:
        (position,) = client.position([place])
        (committed,) = client.committed([place], 5.0)
    except KafkaException:
        return False
    return int(max(position.offset, committed.offset)) >= MESSAGES


def _keep_patience(deadline_s: float, problem: str) -> None:
    if time.monotonic() > deadline_s:
        raise EnvironmentFailure(f"{problem} within {PATIENCE_S:.0f} s", "see log.txt of the brokers")
