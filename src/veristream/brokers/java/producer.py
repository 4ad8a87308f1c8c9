"""Kafka's Java producer, with the verbs of confluent-kafka's.

    with JavaProducer({"bootstrap.servers": "127.0.0.1:9092", "transactional.id": "orders"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("orders", b"...", partition=0, on_delivery=told)
        producer.abort_transaction()

Settings are those of Java's client. Calls wait for at most their timeout, after which the command remains
under way: it is the client's own `max.block.ms` that ends it.
"""

from __future__ import annotations

import tempfile
import threading
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

from veristream.brokers.java.build import CLIENT, find_client
from veristream.brokers.java.process import Answer, CommandProcess, JavaError, Pending
from veristream.brokers.kafka import Program, find_program
from veristream.errors import EnvironmentFailure

NONE: Final = -1
HEAP: Final = ("-Xms16m", "-Xmx128m", "-Xmn8m")
OPEN_S: Final = 60.0
"""How long Java may take to start on a busy machine."""

Headers = Sequence[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class Delivery:
    """Where a record is; the partition or the offset is -1 if nobody said it."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class GroupMember:
    """Who commits offsets of a group, as its consumer was told; without a generation, anybody may."""

    group: str
    generation: int = -1
    member: str = ""


class Position(Protocol):
    """An offset of a partition; confluent-kafka's `TopicPartition` is one."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def offset(self) -> int: ...


Delivered = Callable[[JavaError | None, Delivery], None]
"""Called in a thread of its own once a record is acknowledged or given up."""


class JavaProducer:
    """A Java producer in a process of its own; raises JavaError where Java's throws an exception.

    Raises EnvironmentFailure without Java or if the process ends by itself. Its log is in `folder`, by
    default a temporary one.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        program: Program | None = None,
        folder: Path | None = None,
        process: CommandProcess | None = None,
    ) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="java-client-") if folder is None else None
        log = (folder or Path(self._place.name if self._place else "")) / "java-client.txt"
        self.process = process or CommandProcess(client_command(program or find_program()), log)
        self.producer_id = NONE
        self.epoch = NONE
        self.callback_ms = 0
        """How long Java's callback goes on after it has told the outcome of a record that is sent later."""
        self._changed = threading.Condition()
        self._under_way = 0
        self._delivered = 0
        try:
            settings = {key: str(value) for key, value in config.items()}
            self._do("open", OPEN_S, properties=settings)
        except BaseException:
            self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def __len__(self) -> int:
        return self._under_way

    def init_transactions(self, timeout: float = -1) -> None:
        """Obtains the transactional id and fences earlier producers of it."""
        self._do("init", timeout)

    def begin_transaction(self) -> None:
        """Begins a transaction; only the client knows of it until something is sent in it."""
        self._do("begin", OPEN_S)

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = NONE,
        on_delivery: Delivered | None = None,
        headers: Headers = (),
    ) -> Pending:
        """Sends a record and does not wait; returns what its outcome can be awaited with."""
        with self._changed:
            self._under_way += 1
        try:
            return self.process.give(
                "send",
                partial(self._end, topic, on_delivery),
                topic=topic,
                partition=None if partition == NONE else partition,
                key=_text(key),
                value=_text(value),
                headers=[(name, _text(data)) for name, data in headers],
                callback_ms=self.callback_ms,
            )
        except EnvironmentFailure:
            with self._changed:
                self._under_way -= 1
            raise

    def poll(self, timeout: float = -1) -> int:
        """Waits for a delivery if records are under way; returns how many came since the last time."""
        with self._changed:
            self._changed.wait_for(lambda: self._delivered or not self._under_way, _limit(timeout))
            found, self._delivered = self._delivered, 0
        self.process.check()
        return found

    def flush(self, timeout: float = -1) -> int:
        """Waits until all records are delivered or given up; returns how many are left."""
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way, _limit(timeout))
        self.process.check()
        return self._under_way

    def send_offsets_to_transaction(
        self, positions: Sequence[Position], group_metadata: GroupMember, timeout: float = -1
    ) -> None:
        """Adds a group's offsets to the transaction; they are committed if it is."""
        self._do(
            "offsets",
            timeout,
            offsets=[(each.topic, each.partition, each.offset) for each in positions],
            group=group_metadata.group,
            generation=group_metadata.generation,
            member=group_metadata.member,
        )

    def commit_transaction(self, timeout: float = -1) -> None:
        """Commits the transaction."""
        self._do("commit", timeout)

    def abort_transaction(self, timeout: float = -1) -> None:
        """Aborts the transaction; records of it may be under way."""
        self._do("abort", timeout)

    def give(self, verb: str, **fields: Any) -> Pending:
        """Gives a command without waiting: `init`, `begin`, `offsets`, `commit`, `abort`."""
        return self.process.give(verb, self._learn, **fields)

    def close(self, timeout: float = OPEN_S) -> None:
        """Waits so long for what is under way, and ends the process."""
        try:
            self._do("close", 2 * timeout, timeout_ms=round(1000 * timeout))
        finally:
            self.process.end()
            self._clear()

    def kill(self) -> None:
        """Kills the process, as if the client's machine failed; records under way get `ProcessEnded`."""
        self.process.kill()
        self._clear()

    def _do(self, verb: str, timeout: float, **fields: Any) -> Answer:
        pending = self.give(verb, **fields)
        try:
            return pending.wait(_limit(timeout))
        except JavaError:
            self.process.check()
            raise

    def _learn(self, answer: Answer) -> None:
        self.producer_id = int(answer.get("producer", self.producer_id))
        self.epoch = int(answer.get("epoch", self.epoch))

    def _end(self, topic: str, told: Delivered | None, answer: Answer) -> None:
        self._learn(answer)
        place = Delivery(topic, int(answer.get("partition", NONE)), int(answer.get("offset", NONE)))
        try:
            if told is not None:
                told(JavaError(answer) if "error" in answer else None, place)
        finally:
            with self._changed:
                self._under_way -= 1
                self._delivered += 1
                self._changed.notify_all()

    def _clear(self) -> None:
        if self._place is not None:
            self._place.cleanup()


def client_command(program: Program) -> list[str]:
    """Returns the command line of the Java client, which is compiled if needed."""
    classes = f"{find_client(program)}:{program.jars}/*"
    options = (*HEAP, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=WARN")
    return [str(program.java), *options, "-cp", classes, CLIENT]


def _limit(timeout: float) -> float | None:
    return None if timeout < 0 else timeout


def _text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()
