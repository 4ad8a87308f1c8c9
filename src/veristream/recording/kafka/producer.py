"""A recorded producer of confluent-kafka.

    producer = RecordedProducer({"bootstrap.servers": "127.0.0.1:9092"}, recording, "orders-1")
    producer.produce("orders", b"...", on_delivery=told)
    producer.flush()

It is used as `confluent_kafka.Producer` is. Each message gets a header `veristream-id`, which says which
one it is; a consumer that does not know it is not disturbed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from veristream.history.events import NONE, Operation, Outcome
from veristream.history.identity import HEADER
from veristream.recording.digest import digest
from veristream.recording.kafka.group_metadata import GroupMetadata
from veristream.recording.kafka.outcomes import (
    error_of,
    name_of,
    of_commit,
    of_send,
    of_transaction,
    tries_once,
)
from veristream.recording.kafka.producer_journal import Failures, ProducerJournal
from veristream.recording.rapid import Sends
from veristream.recording.recording import Recording

Delivered = Callable[[KafkaError | None, Message], None]
Done = Callable[[int, Delivered | None, KafkaError | None, Message], None]
Headers = Sequence[tuple[str, Any]] | Mapping[str, Any]

EPOCH_PATIENCE_S: Final = 3.0
STATISTICS: Final = "statistics.interval.ms"
STATISTICS_MS: Final = 100
"""How often a transactional producer tells its epoch, which librdkafka tells only in its statistics."""


FAILURES: Final = Failures(
    KafkaException,
    lambda failure: name_of(error_of(failure)),
    lambda failure: of_commit(error_of(failure)),
    lambda failure: of_transaction(error_of(failure)),
)


class RecordedProducer:
    """A producer whose sends and transactions are recorded; other methods are those of the producer.

    `config` is that of `confluent_kafka.Producer`. As there, one thread polls at a time.
    """

    def __init__(self, config: Mapping[str, Any], recording: Recording, name: str) -> None:
        settings = dict(config)
        id_ = settings.get("transactional.id")
        if id_ is not None:
            self._told: Callable[[str], None] | None = settings.get("stats_cb")
            settings["stats_cb"] = self._learn
            settings.setdefault(STATISTICS, STATISTICS_MS)
        self.inner = Producer(settings)
        self._log = ProducerJournal(recording, name, None if id_ is None else str(id_), FAILURES)
        self.journal = self._log.journal
        self._once = tries_once(settings)
        self._next = count().__next__
        self._stamp = self.journal.stamp
        self._produce = self.inner.produce
        self._sends: dict[str, tuple[Sends, Done]] = {}
        self._prefix = self._log.prefix

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __len__(self) -> int:
        return len(self.inner)

    def produce(
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        partition: int = -1,
        callback: Delivered | None = None,
        on_delivery: Delivered | None = None,
        timestamp: int = 0,
        headers: Headers | None = None,
    ) -> None:
        """Sends a message as the producer does; raises what it raises."""
        try:
            sends, done = self._sends[topic]
        except KeyError:
            sends, done = self._open(topic)
        number = self._next()
        index, now = self._stamp()
        sends.invoked((index, now, number, digest(value)))
        marked: list[Any] = [(HEADER, self._prefix + b"%d" % number)]
        if headers:
            marked += headers.items() if isinstance(headers, Mapping) else headers
        told = partial(done, index, on_delivery or callback)
        try:
            self._produce(topic, value, key, partition, told, None, timestamp, marked)
        except Exception as failure:  # it was not even queued
            sends.end(index, Outcome.FAIL, _said(failure), partition)
            raise

    def produce_batch(
        self,
        topic: str,
        messages: Iterable[dict[str, Any]],
        partition: int = -1,
        callback: Delivered | None = None,
        on_delivery: Delivered | None = None,
    ) -> int:
        """Sends messages one by one, since a batch cannot carry headers; returns how many were queued.

        As in the producer, a message that was not gets its error as `_error`.
        """
        queued = 0
        for each in messages:
            told = each.get("callback") or on_delivery or callback
            place, when = each.get("partition", partition), each.get("timestamp", 0)
            try:
                self.produce(topic, each.get("value"), each.get("key"), place, told, None, when)
            except (BufferError, KafkaException) as failure:
                full = KafkaError(KafkaError._QUEUE_FULL, str(failure))
                each["_error"] = error_of(failure) if isinstance(failure, KafkaException) else full
            else:
                queued += 1
        return queued

    def poll(self, timeout: float = -1) -> int:
        """Waits for deliveries and other events, and returns how many there were."""
        return self.inner.poll(timeout)

    def flush(self, timeout: float = -1) -> int:
        """Waits until all messages are delivered or failed; returns how many are left."""
        return self.inner.flush(timeout)

    def init_transactions(self, timeout: float = -1) -> None:
        """Obtains the transactional id and fences earlier producers of it; waits to know the epoch."""

        def work() -> int:
            self.inner.init_transactions(timeout)
            deadline_s = time.monotonic() + EPOCH_PATIENCE_S
            while self._log.epoch == NONE and time.monotonic() < deadline_s:
                self.inner.poll(STATISTICS_MS / 1000)
            return self._log.epoch

        self._log.open(work)

    def begin_transaction(self) -> None:
        """Begins a transaction; only the client knows of it until something is sent in it."""
        self._log.begin(self.inner.begin_transaction)

    def send_offsets_to_transaction(
        self, positions: Sequence[TopicPartition], group_metadata: GroupMetadata, timeout: float = -1
    ) -> None:
        """Adds a group's offsets to the transaction; they are committed if it is."""

        def work() -> None:
            self.inner.send_offsets_to_transaction(list(positions), group_metadata.inner, timeout)

        self._log.add_offsets(positions, group_metadata.group, work)

    def commit_transaction(self, timeout: float = -1) -> None:
        """Commits the transaction; one whose end is not known may be ended again."""
        self._log.finish(Operation.END_COMMIT, lambda: self.inner.commit_transaction(timeout))

    def abort_transaction(self, timeout: float = -1) -> None:
        """Aborts the transaction."""
        self._log.finish(Operation.END_ABORT, lambda: self.inner.abort_transaction(timeout))

    def close(self, timeout: float = -1) -> None:
        """Waits for what was sent, and ends the producer."""
        with suppress(KafkaException):  # a fenced one cannot; it has told so of each message
            self.inner.flush(timeout)
        self._log.close()

    def _open(self, topic: str) -> tuple[Sends, Done]:
        sends = self._log.sends(topic)
        ended, stamp, once = sends.ended, self._stamp, self._once

        def done(index: int, told: Delivered | None, error: KafkaError | None, message: Any) -> None:
            if error is None:
                offset = message.offset()  # None if the broker did not tell it
                ended((index, *stamp(), message.partition(), NONE if offset is None else offset))
            else:
                outcome = of_send(error, once=once)
                sends.end(index, outcome, name_of(error), _partition(message))
            if told is not None:
                told(error, message)

        self._sends[topic] = sends, done
        return sends, done

    def _learn(self, statistics: str) -> None:
        if self._log.epoch == NONE:
            found = json.loads(statistics).get("eos", {})
            if found.get("idemp_state") == "Assigned":
                self._log.epoch = int(found.get("producer_epoch", NONE))
        if self._told is not None:
            self._told(statistics)


def _partition(message: Message | None) -> int:
    found = None if message is None else message.partition()
    return NONE if found is None or found < 0 else int(found)


def _said(failure: Exception) -> str:
    return name_of(error_of(failure)) if isinstance(failure, KafkaException) else type(failure).__name__
