"""The stage of Kafka: producers behind proxies that hold what the run decides about."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
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
from veristream.replay.kafka.replicas import ENDING, ONGOING, Replicas
from veristream.replay.kafka.wire import KINDS, Asked, KafkaWire
from veristream.replay.outcome import Offsets
from veristream.replay.words import Words

BYSTANDER: Final = 3
"""How many messages without a transaction are sent to each partition in the end, so that the log grows."""

BYSTANDER_S: Final = 60.0
ANSWER_S: Final = 20.0
COORDINATOR_S: Final = 60.0
POLL_S: Final = 0.02
FAIL_OVER, MOVE, REPLICATE, LOAD, RESIGN = "fail over", "move", "replicate", "await load", "resign"
DEEDS: Final = (
    *("read", "restart", "await marker", "complete", "await failure", "await time-out", "await answer"),
    *(FAIL_OVER, MOVE, REPLICATE, LOAD, RESIGN),
)
"""What may happen besides calls and messages, as tables name it."""

WORDS: Final = Words("Kafka", VERBS, tuple(KINDS), DEEDS)
"""What tables may say of Kafka."""

LOG_DEEDS: Final = frozenset({MOVE, REPLICATE})
"""In a run with these, or with answers that come later, the transaction log waits for the run."""

REPLICATED: Final = LOG_DEEDS | {FAIL_OVER}
"""A run with these needs several brokers."""


@dataclass(slots=True)
class KafkaStage:
    """What `course.execute` steers; `observe` then reads what came of it."""

    kafka: RunningKafka
    recording: Recording
    wire: KafkaWire
    replicas: Replicas
    topic: str
    shape: Shape
    seconds: float
    clients: dict[str, Client] = field(default_factory=dict)
    ends: list[int] = field(default_factory=list)
    """Where partitions ended when something was last seen to be written to them."""
    restarts: int = 0

    @property
    def partitions(self) -> int:
        """How many partitions the topic has."""
        return self.shape.partitions

    def open(self, process: str, name: str) -> None:
        """Gives a process its client, whose events the recording has under a name."""
        id_ = self.replicas.ids[_number(process) % len(self.replicas.ids)]
        producer = self.kafka.producer(self.recording, name, client_id=process, transactional_id=id_)
        self.clients[process] = Client(producer, self.topic, prompt=not self.shape.asked.counts)

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
        self.wire.let_hear(process)
        answer = self.clients[process].wait_returned(self.seconds)
        return None if answer is None else replace(answer, epoch=self.wire.epoch(process, self.seconds))

    def do(self, what: str, process: str, arguments: Sequence[str]) -> str:
        """Reads all partitions, waits for something, or lets something happen to a client or a broker."""
        match what:
            case "read":
                self._read("read_committed", f"reader of {process}")
                return ""
            case "restart":
                self.restarts += 1
                end_all([self.clients[process]])
                self.open(process, f"{process} restarted, {self.restarts}")
                return ""
            case "await marker":
                return self._await_marker(_number(process))
            case "complete":
                if not self.shape.holds_markers:
                    return ""  # the coordinator does it by itself
                self.wire.let_complete()
                return self.replicas.await_end(self.topic, ENDING)
            case "await failure":
                failed = self.clients[process].wait_failed(self.seconds)
                return "" if failed else f"no message of {process} has failed"
            case "await time-out":
                return self.replicas.await_end(self.topic, ONGOING)
            case "await answer":
                answer = self.wire.wait_later(self.seconds)
                return "no coordinator answers" if answer is None else answer.error or ""
            case _:
                return self._do_to_brokers(what, [int(each) for each in arguments])

    def _do_to_brokers(self, what: str, arguments: Sequence[int]) -> str:
        """Does something to the coordinator or to its log."""
        match what:
            case "fail over":
                return self._fail_over(lost=bool(arguments[0]))
            case "move":
                wrong = self.replicas.fetch_once() if arguments[1] else ""
                return wrong or self._kill(lost=True)
            case "replicate":
                return self.replicas.replicate()
            case "await load":
                return self.replicas.find()
            case "resign":
                return "a broker that was killed tells nobody" if arguments[1] else ""
            case _:
                raise AssertionError(what)

    def _fail_over(self, *, lost: bool) -> str:
        """Kills the coordinator, and waits until clients ask the next one what the former was not told.

        What it had said and is under way may be `lost`.
        """
        asked = self.wire.lose(self.replicas.coordinator)
        return self._kill(lost=lost) or self.wire.find_again(asked, self.seconds)

    def _kill(self, *, lost: bool) -> str:
        """Kills the coordinator and waits for the next."""
        former = self.replicas.coordinator
        self.replicas.kill()
        if lost:
            self.kafka.proxies.cut_once(former)
            self.wire.forget_answers(former)
        if self.shape.holds_markers:
            self.wire.forget_markers(self.partitions)
        return self.replicas.take_over()

    def explain(self) -> str:
        """Says what passed and what waits."""
        return self.wire.explain()

    def observe(self) -> tuple[Offsets, ...]:
        """Lets all go on, ends the clients, lets the log grow, and reads it; returns where readers stop."""
        self.wire.release_all()
        end_all(list(self.clients.values()))
        self.replicas.end()
        patient = f"{BYSTANDER_S * 1000:.0f}"  # the run's clients may give up soon, and this one may not
        bystander = self.kafka.producer(self.recording, "bystander", acks="all", message_timeout_ms=patient)
        for number in range(BYSTANDER):
            for partition in range(self.partitions):
                produce(bystander, self.topic, payload(number), partition)
        if bystander.flush(BYSTANDER_S):
            raise EnvironmentFailure("Kafka takes no messages any more", "see log.txt of the brokers")
        bystander.close()
        self._read("read_committed", "reader")
        stable = find_ends(self.kafka, self.topic, self.partitions, committed=True)
        end = self._ends()
        return tuple(Offsets(each, stable[each], end[each]) for each in range(self.partitions))

    def _await_marker(self, partition: int) -> str:
        """Lets a marker go on, if they are held, and waits until its partition has it."""
        if self.shape.holds_markers and not self.wire.deliver_marker(partition, self.seconds):
            return f"no marker for partition {partition} came"
        return self._await_longer(partition)

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
    """What a run needs: clients, by their processes, transactional ids, partitions; what is held, if any.

    With several `brokers`, markers wait at a proxy, or the transaction log `is_steered`.
    """

    processes: tuple[str, ...]
    asked: Asked
    partitions: int
    ids: int = 1
    brokers: int = 1
    is_log_steered: bool = False

    @property
    def holds_markers(self) -> bool:
        """Whether markers wait at a proxy until the run delivers them."""
        return self.brokers > 1 and not self.is_log_steered and bool(self.asked.counts)


@contextmanager
def on_stage(
    kafka: RunningKafka, recording: Recording, shape: Shape, seconds: float
) -> Iterator[KafkaStage]:
    """Opens a topic and the clients, and holds what the run decides about; a step waits `seconds`."""
    topic = new_topic("replay")
    wait_for_coordinator(kafka, f"{topic}-before")
    steering = Steering(recording)
    ids = [topic, *(f"{topic}-{number}" for number in range(1, shape.ids))]
    replicas = Replicas(kafka, recording, steering, ids, seconds)
    if wrong := replicas.find():
        raise EnvironmentFailure(wrong, "see log.txt of the brokers")
    if shape.brokers > 1:
        replicas.create_topic(topic, shape.partitions)
    else:
        kafka.create_topic(topic, shape.partitions)
    wire = KafkaWire(steering, shape.asked)
    stage = KafkaStage(kafka, recording, wire, replicas, topic, shape, seconds, ends=[0] * shape.partitions)
    for process in shape.processes:
        stage.open(process, process)
    kafka.proxies.decide = steering
    try:
        _begin(stage)
        yield stage
    finally:
        wire.release_all()
        kafka.proxies.decide = let_pass


def _begin(stage: KafkaStage) -> None:
    """Holds what goes from broker to broker."""
    if stage.shape.holds_markers:
        stage.wire.hold_markers(stage.topic, stage.partitions)
    if stage.shape.is_log_steered and (wrong := stage.replicas.hold_log()):
        raise EnvironmentFailure(wrong, "see log.txt of the brokers")


def _number(process: str) -> int:
    """Returns the number of a process, such as 2 of Client(2)."""
    return int(process.partition("(")[2].rstrip(")"))
