"""What `veristream record kafka` lets clients do, by name."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from secrets import token_hex
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from veristream.recording.kafka.consumer import RecordedConsumer
from veristream.recording.kafka.outcomes import error_of
from veristream.recording.kafka.producer import RecordedProducer
from veristream.recording.kafka.reading import read_to_end
from veristream.recording.kafka.running import RunningKafka
from veristream.recording.recording import Recording
from veristream.recording.workload import Load, Watch, Work, Workload

PRODUCERS: Final = 2
MEMBERS: Final = 3
POLL_S: Final = 0.1
AT_ONCE: Final = 100
SIZE: Final = 100
"""Bytes of a message."""

IN_TRANSACTION: Final = 4
ABORTED: Final = 0.25
"""The part of the transactions that are aborted."""

FLUSH_S: Final = 60.0
TRANSACTION_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a workload is given: where to record, the topic, and the seed of what is random."""

    kafka: RunningKafka
    recording: Recording
    topic: str
    partitions: int
    seed: int


Make = Callable[[Plan], dict[str, Work]]


def payload(number: int) -> bytes:
    """Returns the bytes of a message, which differ from those of all others: a log shows no headers."""
    return (b"%d %b " % (number, token_hex(8).encode()) * SIZE)[:SIZE]


def new_topic(name: str) -> str:
    """Returns a name that no earlier recording used: messages name their producer by number only."""
    return f"{name}-{uuid.uuid4().hex[:8]}"


def _sends(plan: Plan) -> dict[str, Work]:
    def producer(name: str) -> Work:
        client = plan.kafka.producer(plan.recording, name)

        def work(load: Load) -> None:
            for beat in load.beats(PRODUCERS):
                produce(client, plan.topic, payload(beat))
                client.poll(0)
            client.close(FLUSH_S)

        return work

    names = [f"producer-{number}" for number in range(PRODUCERS)]
    return {**{name: producer(name) for name in names}, "reader-live": _live(plan)}


def _transactions(plan: Plan) -> dict[str, Work]:
    def producer(name: str, seed: int) -> Work:
        id_ = f"{plan.topic}-{name}"

        def work(load: Load) -> None:
            chance = random.Random(seed)
            client: RecordedProducer | None = None
            for beat in load.beats(PRODUCERS):
                if beat % IN_TRANSACTION:
                    continue  # the rate is one of messages
                client = client or _open(plan, name, id_)
                if client is None:
                    continue
                first = chance.randrange(plan.partitions)
                places = [(first + each) % plan.partitions for each in range(IN_TRANSACTION)]
                if not _transact(client, plan.topic, places, aborts=chance.random() < ABORTED):
                    client.close(0)
                    client = None
            if client is not None:
                client.close(FLUSH_S)

        return work

    names = [f"producer-{number}" for number in range(PRODUCERS)]
    found = {name: producer(name, plan.seed + at) for at, name in enumerate(names)}
    return {**found, "reader-live": _live(plan)}


def _open(plan: Plan, name: str, id_: str) -> RecordedProducer | None:
    """Returns a producer that holds the transactional id; None if Kafka does not give it now."""
    client = plan.kafka.producer(plan.recording, name, transactional_id=id_)
    try:
        client.init_transactions(TRANSACTION_S)
    except KafkaException:
        client.close(0)
        return None
    return client


def _transact(client: RecordedProducer, topic: str, places: list[int], *, aborts: bool) -> bool:
    """Runs one transaction; returns whether its producer can go on."""
    try:
        client.begin_transaction()
        for number, partition in enumerate(places):
            produce(client, topic, payload(number), partition)
        if not aborts:
            client.commit_transaction(TRANSACTION_S)
            return True
    except KafkaException as failure:
        error = error_of(failure)
        if error is None or error.fatal():
            return False
    try:
        client.abort_transaction(TRANSACTION_S)
    except KafkaException:
        return False
    return True


def _group(plan: Plan) -> dict[str, Work]:
    """Members that leave and come back; they commit what they have processed, or let the client do it."""
    own = str(plan.kafka.settings.consumer.get("enable.auto.commit", "false")) == "true"
    group = f"{plan.topic}-group"

    def member(number: int) -> Work:
        def work(load: Load) -> None:
            chance = random.Random(plan.seed + number)
            life = 0
            while not load.is_over:
                name = f"member-{number}.{life}"
                settings = {} if own else {"enable_auto_commit": "false"}
                client = plan.kafka.member(plan.recording, name, group, **settings)
                client.subscribe([plan.topic])
                _process(client, load, load.elapsed_s + chance.uniform(4.0, 10.0), commits=not own)
                client.close()
                life += 1

        return work

    found = {f"member-{number}": member(number) for number in range(MEMBERS)}
    sends = _sends(plan)
    sends.pop("reader-live")
    return {**sends, **found}


def _process(client: RecordedConsumer, load: Load, until_s: float, *, commits: bool) -> None:
    while not load.is_over and load.elapsed_s < until_s:
        messages = [each for each in client.consume(AT_ONCE, POLL_S) if each.error() is None]
        for each in messages:
            client.processed(each)
        if commits and messages:
            try:
                client.commit(asynchronous=False)
            except KafkaException:
                continue  # the recording has it; another member may process these again


def _live(plan: Plan) -> Work:
    """A reader from the start, beside the producers."""
    client = plan.kafka.reader(plan.recording, "reader-live")

    def work(load: Load) -> None:
        client.assign([TopicPartition(plan.topic, each, 0) for each in range(plan.partitions)])
        while not load.is_over:
            client.consume(AT_ONCE, POLL_S)
        client.close()

    return work


WORKLOADS: Final[Mapping[str, Make]] = {
    "sends": _sends,
    "transactions": _transactions,
    "group": _group,
}
"""By name: `sends`, which are also read; `transactions`, some of which are aborted; a `group` whose members
come and go, beside producers."""


def make_workload(name: str, plan: Plan, watch: Watch) -> Workload:
    """Returns a workload; in the end, a reader of the log reads all partitions to their ends."""

    def read() -> None:
        plan.kafka.wait_healed([plan.topic])
        reader = plan.kafka.reader(plan.recording, "reader-end")
        read_to_end(plan.recording, reader, plan.topic, range(plan.partitions))
        reader.close()

    return Workload(WORKLOADS[name](plan), read, watch)


def produce(client: RecordedProducer, topic: str, value: bytes, partition: int = -1) -> None:
    """Sends a message, and waits for room if there is none."""
    deadline_s = time.monotonic() + FLUSH_S
    while True:
        try:
            client.produce(topic, value, partition=partition)
        except BufferError:
            if time.monotonic() > deadline_s:
                raise
            client.poll(POLL_S)
        except KafkaException as failure:
            error = error_of(failure)
            if error is None or error.code() != KafkaError._QUEUE_FULL:
                raise
            client.poll(POLL_S)
        else:
            return
