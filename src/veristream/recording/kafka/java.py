"""A recorded producer of Kafka's Java client, which writes the same events as the one of confluent-kafka.

producer = RecordedJavaProducer({"bootstrap.servers": "127.0.0.1:9092"}, recording, "orders-1")
producer.produce("orders", b"...", on_delivery=told)
producer.close()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

from veristream.brokers.java.process import ENDED, JavaError, Pending
from veristream.brokers.java.producer import OPEN_S, Delivered, Delivery, Headers, JavaProducer
from veristream.brokers.kafka import Program
from veristream.history.events import NONE, Operation, Outcome
from veristream.history.identity import HEADER
from veristream.recording.digest import digest
from veristream.recording.kafka.group_metadata import GroupMetadata
from veristream.recording.kafka.producer_journal import Failures, Position, ProducerJournal
from veristream.recording.rapid import Sends
from veristream.recording.recording import Recording

_REFUSED: Final = frozenset(
    {
        "RecordTooLargeException",
        "RecordBatchTooLargeException",
        "TopicAuthorizationException",
        "ClusterAuthorizationException",
        "TransactionalIdAuthorizationException",
        "InvalidRequiredAcksException",
        "InvalidRecordException",
        "PolicyViolationException",
        "InvalidTopicException",
        "TransactionAbortedException",
    }
)
"""Every attempt gets these, or none was made: an aborted record was still in the client's buffer."""

_NOT_COMMITTED: Final = frozenset(
    {
        "CommitFailedException",
        "IllegalGenerationException",
        "UnknownMemberIdException",
        "FencedInstanceIdException",
        "GroupAuthorizationException",
        "TopicAuthorizationException",
        "OffsetMetadataTooLarge",
    }
)
"""A group does not take offsets from a member that it does not have."""


def of_send(error: JavaError) -> Outcome:
    """Returns the outcome of sending a record; one that the client did not take was not sent."""
    not_taken = not error.queued and error.name != ENDED
    return Outcome.FAIL if not_taken or error.name in _REFUSED else Outcome.INDEFINITE


def of_commit(error: JavaError) -> Outcome:
    """Returns the outcome of committing offsets of a group."""
    return Outcome.FAIL if error.name in _NOT_COMMITTED else Outcome.INDEFINITE


def of_transaction(error: JavaError) -> Outcome:
    """Returns the outcome of ending a transaction; one that has to be aborted was not ended."""
    return Outcome.FAIL if error.must_abort else Outcome.INDEFINITE


FAILURES: Final = Failures(JavaError, lambda error: error.name, of_commit, of_transaction)


class RecordedJavaProducer:
    """A Java producer whose sends and transactions are recorded; other attributes are those of `inner`.

    The epoch of an event is the one that the client had when the transaction began, since with version 2 of
    transactions each has its own.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        recording: Recording,
        name: str,
        program: Program | None = None,
        folder: Path | None = None,
    ) -> None:
        self.inner = JavaProducer(config, program, folder)
        id_ = config.get("transactional.id")
        self._log = ProducerJournal(recording, name, None if id_ is None else str(id_), FAILURES)
        self.journal = self._log.journal
        self._next = count().__next__
        self._sends: dict[str, Sends] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __len__(self) -> int:
        return len(self.inner)

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
        sends = self._sends.get(topic)
        if sends is None:
            sends = self._sends[topic] = self._log.sends(topic)
        number = self._next()
        invoke = sends.invoke(number, digest(value))

        def told(error: JavaError | None, delivery: Delivery) -> None:
            if error is None:
                sends.ok(invoke, delivery.partition, delivery.offset)
            else:
                place = delivery.partition if delivery.partition != NONE else partition
                sends.end(invoke, of_send(error), error.name, place)
            if on_delivery is not None:
                on_delivery(error, delivery)

        marked = [(HEADER, self._log.prefix + b"%d" % number), *headers]
        return self.inner.produce(topic, value, key, partition, told, marked)

    def init_transactions(self, timeout: float = -1) -> None:
        """Obtains the transactional id and fences earlier producers of it."""

        def work() -> int:
            self.inner.init_transactions(timeout)
            return self.inner.epoch

        self._log.open(work)

    def begin_transaction(self) -> None:
        """Begins a transaction; only the client knows of it until something is sent in it."""
        self._log.epoch = self.inner.epoch
        self._log.begin(self.inner.begin_transaction)

    def send_offsets_to_transaction(
        self, positions: Sequence[Position], group_metadata: GroupMetadata, timeout: float = -1
    ) -> None:
        """Adds a group's offsets to the transaction; `inner` of the metadata is a `GroupMember`."""

        def work() -> None:
            self.inner.send_offsets_to_transaction(positions, group_metadata.inner, timeout)

        self._log.add_offsets(positions, group_metadata.group, work)

    def commit_transaction(self, timeout: float = -1) -> None:
        """Commits the transaction; one whose end is not known may be ended again."""
        self._log.finish(Operation.END_COMMIT, lambda: self.inner.commit_transaction(timeout))

    def abort_transaction(self, timeout: float = -1) -> None:
        """Aborts the transaction."""
        self._log.finish(Operation.END_ABORT, lambda: self.inner.abort_transaction(timeout))

    def poll(self, timeout: float = -1) -> int:
        """Waits for a delivery, and returns how many there were."""
        return self.inner.poll(timeout)

    def flush(self, timeout: float = -1) -> int:
        """Waits until all records are delivered or given up; returns how many are left."""
        return self.inner.flush(timeout)

    def close(self, timeout: float = OPEN_S) -> None:
        """Waits so long for what was sent, and ends the producer."""
        self.inner.close(timeout)
        self._log.close()

    def kill(self) -> None:
        """Kills the client's process, which then has no chance to say goodbye."""
        self.inner.kill()
