"""Transactions that are committed and aborted, and a producer that another one has fenced."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from confluent_kafka import KafkaException, TopicPartition

from veristream.recording.kafka.producer import RecordedProducer
from veristream.recording.kafka.reading import read_to_end
from veristream.recording.kafka.running import RunningKafka
from veristream.recording.kafka.workloads import new_topic, payload, produce
from veristream.recording.recording import Recording

TRANSACTIONS: Final = 6
"""Every second one is aborted."""

PARTITIONS: Final = 2
PATIENCE_S: Final = 30.0


def some_are_aborted(kafka: RunningKafka, recording: Recording) -> None:
    """Commits and aborts transactions on two partitions, which a reader reads meanwhile and in the end."""
    topic = new_topic("some-are-aborted")
    kafka.create_topic(topic, PARTITIONS)
    client = _open(kafka, recording, "producer-0", topic)
    live = kafka.reader(recording, "reader-live")
    live.assign([TopicPartition(topic, each, 0) for each in range(PARTITIONS)])
    for number in range(TRANSACTIONS):
        client.begin_transaction()
        for partition in range(PARTITIONS):
            produce(client, topic, payload(number), partition)
        client.flush(PATIENCE_S)
        live.consume(PARTITIONS, 0.3)
        if number % 2:
            client.abort_transaction(PATIENCE_S)
        else:
            client.commit_transaction(PATIENCE_S)
    client.close(PATIENCE_S)
    live.close()
    _read(kafka, recording, topic)


def producer_is_fenced(kafka: RunningKafka, recording: Recording) -> None:
    """Opens a transactional id twice; the first producer has a transaction open, and tries to commit it."""
    topic = new_topic("producer-is-fenced")
    kafka.create_topic(topic, PARTITIONS)
    first = _open(kafka, recording, "producer-0", topic)
    _send(first, topic)
    second = _open(kafka, recording, "producer-1", topic)
    _send(second, topic)
    with suppress(KafkaException):  # as it should be; the recording has it
        first.commit_transaction(PATIENCE_S)
    second.commit_transaction(PATIENCE_S)
    for each in (first, second):
        each.close(PATIENCE_S)
    _read(kafka, recording, topic)


def _open(kafka: RunningKafka, recording: Recording, name: str, id_: str) -> RecordedProducer:
    client = kafka.producer(recording, name, transactional_id=id_)
    client.init_transactions(PATIENCE_S)
    return client


def _send(client: RecordedProducer, topic: str) -> None:
    client.begin_transaction()
    for partition in range(PARTITIONS):
        produce(client, topic, payload(partition), partition)
    client.flush(PATIENCE_S)


def _read(kafka: RunningKafka, recording: Recording, topic: str) -> None:
    reader = kafka.reader(recording, "reader-0")
    read_to_end(recording, reader, topic, range(PARTITIONS))
    reader.close()
    recording.finish()
