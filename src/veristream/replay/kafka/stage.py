"""The stage of Kafka: producers behind proxies that hold what the run decides about."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from veristream.brokers.proxy.pieces import let_pass
from veristream.brokers.proxy.steering import Steering
from veristream.errors import EnvironmentFailure
from veristream.history.manifest import Isolation
from veristream.recording.kafka.outcomes import error_of
from veristream.recording.kafka.reading import read_to_end
from veristream.recording.kafka.running import RunningKafka
from veristream.recording.kafka.workloads import new_topic, payload, produce
from veristream.recording.recording import Recording
from veristream.replay.course import Answer, Held
from veristream.replay.kafka.clients import VERBS, Client, end_all
from veristream.replay.kafka.wire import KINDS, KafkaWire
from veristream.replay.outcome import Offsets
from veristream.replay.words import Words

BYSTANDER: Final = 3
"""How many messages without a transaction are sent to each partition in the end, so that the log grows."""

ANSWER_S: Final = 20.0
COORDINATOR_S: Final = 60.0
POLL_S: Final = 0.02
WORDS: Final = Words("Kafka", VERBS, tuple(KINDS), ("read", "await marker", "await failure"))
"""What tables may say of Kafka."""


@dataclass(slots=True)
class KafkaStage:
    """What `course.execute` steers; `observe` then reads what came of it."""

    kafka: RunningKafka
    recording: Recording
    wire: KafkaWire
    topic: str
    partitions: int
    seconds: float
    clients: dict[str, Client] = field(default_factory=dict)
    ends: list[int] = field(default_factory=list)
    """Where partitions ended when something was last seen to be written to them."""

    def call(self, process: str, verb: str, arguments: Sequence[str]) -> None:
        """Begins a call of the process's client; the first argument, if any, is a partition."""
        self.clients[process].call(verb, int(arguments[0]) if arguments else 0)

    def take_held(self, process: str, kind: str) -> Held | None:
        """Waits until a message of a kind from the process's client is held that was not taken before."""
        return self.wire.take(process, kind, self.seconds)

    def deliver(self, held: Held) -> Answer | None:
        """Lets a message go on, and waits for its answer."""
        answer = self.wire.deliver(held, self.seconds)
        if answer is not None and held.kind == "Produce":
            self.ends = self._ends()
        return answer

    def wait_returned(self, process: str) -> Answer | None:
        """Waits until the call that the process began ends."""
        return self.clients[process].wait_returned(self.seconds)

    def do(self, what: str, process: str, arguments: Sequence[str]) -> str:
        """Reads the committed messages of all partitions, or waits for a marker or for a failure."""
        match what:
            case "read":
                self._read("read_committed", f"reader of {process}")
            case "await marker":
                return self._await_longer(int(process.partition("(")[2].rstrip(")")))
            case "await failure":
                failed = self.clients[process].wait_failed(self.seconds)
                return "" if failed else f"no message of {process} has failed"
            case _:
                raise AssertionError(what)
        return ""

    def explain(self) -> str:
        """Says what passed and what waits."""
        return self.wire.explain()

    def observe(self) -> tuple[Offsets, ...]:
        """Lets all go on, ends the clients, lets the log grow, and reads it; returns where readers stop."""
        self.wire.release_all()
        end_all(list(self.clients.values()))
        bystander = self.kafka.producer(self.recording, "bystander", acks="all")
        for number in range(BYSTANDER):
            for partition in range(self.partitions):
                produce(bystander, self.topic, payload(number), partition)
        if bystander.flush(ANSWER_S):
            raise EnvironmentFailure("Kafka takes no messages any more", "see log.txt of the brokers")
        bystander.close()
        self._read("read_committed", "reader")
        stable = find_ends(self.kafka, self.topic, self.partitions, committed=True)
        end = self._ends()
        return tuple(Offsets(each, stable[each], end[each]) for each in range(self.partitions))

    def _await_longer(self, partition: int) -> str:
        """Waits until a partition is longer than what was written to it and marked in it so far."""
        deadline_s = time.monotonic() + self.seconds
        while (end := self._ends()[partition]) <= self.ends[partition]:
            if time.monotonic() > deadline_s:
                return f"partition {partition} still ends at {end}"
            time.sleep(POLL_S)
        self.ends[partition] = end
        return ""

    def _ends(self) -> list[int]:
        return find_ends(self.kafka, self.topic, self.partitions)

    def _read(self, isolation: Isolation, name: str) -> None:
        reader = self.kafka.reader(self.recording, name, isolation)
        read_to_end(self.recording, reader, self.topic, range(self.partitions))
        reader.close()


def wait_for_coordinator(kafka: RunningKafka, transactional_id: str) -> None:
    """Waits until the coordinator of transactions has loaded its log, which it does when it is first asked.

    Models have no coordinator that is not ready yet.
    """
    config = {**kafka.client_settings("before"), "transactional.id": transactional_id}
    producer, deadline_s = Producer(config), time.monotonic() + COORDINATOR_S
    while True:
        try:
            producer.init_transactions(ANSWER_S)
        except KafkaException as failure:
            error = error_of(failure)
            if error is None or not error.retriable() or time.monotonic() > deadline_s:
                raise EnvironmentFailure(
                    f"Kafka gives no producer id: {failure}", "see log.txt of the brokers"
                ) from failure
        else:
            return


def find_ends(kafka: RunningKafka, topic: str, partitions: int, *, committed: bool = False) -> list[int]:
    """Returns where each partition ends; with `committed`, its last stable offset."""
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    places = [TopicPartition(topic, each) for each in range(partitions)]
    admin = AdminClient(kafka.client_settings("offsets"))
    latest = {each: OffsetSpec.latest() for each in places}  # type: ignore[no-untyped-call]
    asked = admin.list_offsets(latest, isolation_level=level, request_timeout=ANSWER_S)
    return [asked[each].result().offset for each in places]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a run needs: clients, by their processes, and partitions; how many messages it holds, if any."""

    processes: tuple[str, ...]
    held: Mapping[tuple[str, str], int]
    partitions: int


@contextmanager
def on_stage(
    kafka: RunningKafka, recording: Recording, shape: Shape, seconds: float
) -> Iterator[KafkaStage]:
    """Opens a topic and the clients, and holds what the run decides about; a step waits `seconds`."""
    topic = new_topic("replay")
    kafka.create_topic(topic, shape.partitions)
    wait_for_coordinator(kafka, f"{topic}-before")
    steering = Steering(recording)
    wire = KafkaWire(steering, shape.held)
    stage = KafkaStage(
        kafka, recording, wire, topic, shape.partitions, seconds, ends=[0] * shape.partitions
    )
    for process in shape.processes:
        producer = kafka.producer(recording, process, transactional_id=topic)
        stage.clients[process] = Client(producer, topic, prompt=not shape.held)
    kafka.proxies.decide = steering
    try:
        yield stage
    finally:
        wire.release_all()
        kafka.proxies.decide = let_pass
