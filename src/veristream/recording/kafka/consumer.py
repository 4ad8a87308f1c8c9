"""A recorded consumer of confluent-kafka.

    consumer = RecordedConsumer({"bootstrap.servers": ..., "group.id": "billing"}, recording, "billing-1")
    consumer.subscribe(["orders"])
    message = consumer.poll(1.0)
    consumer.processed(message)  # after it was processed, so that commits can be compared with it
    consumer.close()

It is used as `confluent_kafka.Consumer` is; errors are returned and raised as there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from veristream.history.events import NONE, Operation
from veristream.history.identity import HEADER, UNKNOWN, decode
from veristream.history.manifest import Isolation
from veristream.recording.digest import digest
from veristream.recording.journal import Call, Fields
from veristream.recording.kafka.group_metadata import GroupMetadata
from veristream.recording.kafka.outcomes import error_of, name_of, of_commit
from veristream.recording.rapid import Receives
from veristream.recording.recording import Recording

Rebalanced = Callable[[Any, list[TopicPartition]], None]
Committed = Callable[[KafkaError | None, list[TopicPartition]], None]

RESET: Final = "auto.offset.reset"
STRATEGY: Final = "partition.assignment.strategy"
POSITION_S: Final = 5.0
"""How long an assigned member waits for the offset from which it starts."""


class RecordedConsumer:
    """A consumer whose receipts, commits and assignments are recorded; other methods are the consumer's.

    With `member=False`, it is no member of its group: a reader that assigns partitions to itself, although
    confluent-kafka asks for a `group.id` even then. It commits nothing unless it is told so.
    """

    def __init__(
        self, config: Mapping[str, Any], recording: Recording, name: str, *, member: bool = True
    ) -> None:
        settings = dict(config)
        self._recording = recording
        self._told: Committed | None = settings.get("on_commit")
        reset, strategy = (str(settings.get(each, "")) for each in (RESET, STRATEGY))
        self._resets_to_end = reset in ("", "latest", "largest", "end") and "cooperative" not in strategy
        settings["on_commit"] = self._on_commit
        self._id = str(settings["group.id"])
        self._group = recording.group(self._id) if member else NONE
        if not member:
            settings.setdefault("enable.auto.commit", "false")
        isolation: Isolation = "read_committed"  # librdkafka's default
        if settings.get("isolation.level") == "read_uncommitted":
            isolation = "read_uncommitted"
        self.inner: Any = Consumer(settings)
        self._asking = {name: value for name, value in settings.items() if _is_of_connection(name)}
        self.journal = recording.journal(name, isolation, self._group if member else None)
        self._receives: dict[str, Receives] = {}
        self._committed: dict[tuple[str, int], int] = {}
        self._committing: dict[tuple[str, int, int], list[Call]] = defaultdict(list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def subscribe(
        self,
        topics: list[str],
        on_assign: Rebalanced | None = None,
        on_revoke: Rebalanced | None = None,
        on_lost: Rebalanced | None = None,
    ) -> None:
        """Joins the group for these topics; callbacks get this consumer."""

        def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
            self._note_assigned(partitions)
            if on_assign is not None:
                on_assign(self, partitions)

        def revoked(told: Rebalanced | None) -> Rebalanced:
            def call(_: Consumer, partitions: list[TopicPartition]) -> None:
                if told is not None:
                    told(self, partitions)
                for each in partitions:
                    self.journal.note(Operation.REVOKE, **self._place(each))

            return call

        self.inner.subscribe(
            topics,
            on_assign=assigned,
            on_revoke=revoked(on_revoke),
            on_lost=revoked(on_lost or on_revoke),
        )

    def poll(self, timeout: float = -1) -> Message | None:
        """Returns the next message or an error, or None if there was none in time."""
        message: Message | None = self.inner.poll(timeout)
        if message is not None and message.error() is None:
            self._note_received(message, NONE)
        return message

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """Returns up to so many messages and errors; they are received in one call."""
        messages: list[Message] = self.inner.consume(num_messages, timeout)
        if messages:
            call = self.journal.begin()
            for each in messages:
                if each.error() is None:
                    self._note_received(each, call)
        return messages

    def processed(self, message: Message) -> None:
        """Notes that the application has processed a message; Kafka does not learn it."""
        producer, number = identity_of(message)
        fields = self._place(_after(message, 0))
        fields["producer"], fields["number"] = producer, number
        self.journal.ok(self.journal.invoke(Operation.ACKNOWLEDGE, **fields))

    def commit(
        self,
        message: Message | None = None,
        offsets: Sequence[TopicPartition] | None = None,
        asynchronous: bool = True,
    ) -> list[TopicPartition] | None:
        """Commits as the consumer does: of a message, of offsets, or of all that was received."""
        chosen: dict[str, Any] = {}
        if message is not None:
            chosen, wanted = {"message": message}, [_after(message, 1)]
        elif offsets is not None:
            wanted = list(offsets)
            chosen = {"offsets": wanted}
        else:
            wanted = self._positions()
        calls = {_key(each): self._invoke_commit(each) for each in wanted if each.offset >= 0}
        try:
            done = self.inner.commit(asynchronous=asynchronous, **chosen)
        except KafkaException as failure:
            for call in calls.values():
                self._end_commit(call, error_of(failure))
            raise
        if asynchronous:
            for key, call in calls.items():
                self._committing[key].append(call)
            return None
        for each in done:
            if each.offset >= 0:
                key = _key(each)
                self._end_commit(calls.pop(key) if key in calls else self._invoke_commit(each), each.error)
        for call in calls.values():  # the client had nothing new to commit there
            self.journal.fail(call, "_NO_OFFSET")
        return list(done)

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Reads these partitions from their offsets, whatever the group says."""
        self.inner.assign(partitions)
        for each in partitions:
            if each.offset >= 0:
                self._note_seek(each)

    def seek(self, partition: TopicPartition) -> None:
        """Goes on reading from another offset."""
        self.inner.seek(partition)
        self._note_seek(partition)

    def consumer_group_metadata(self) -> GroupMetadata:
        """Returns what a transactional producer needs to commit offsets of this consumer's group."""
        return GroupMetadata(self.inner.consumer_group_metadata(), self._recording.group(self._id))

    def last_commit(self, topic: str, partition: int) -> int:
        """Returns the offset that `on_commit` was last told of, or NONE."""
        return self._committed.get((topic, partition), NONE)

    def log_end(self, topic: str, partition: int, timeout: float) -> int:
        """Returns the end of a log, which a reader of isolation `read_committed` may not see; else NONE."""
        place = TopicPartition(topic, partition)
        asked = {place: OffsetSpec.latest()}  # type: ignore[no-untyped-call]
        administrator = AdminClient(self._asking)  # it must live until the answer is there
        found = administrator.list_offsets(
            asked, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=timeout
        )
        with suppress(KafkaException, TimeoutError):
            return int(found[place].result(2 * timeout).offset)
        return NONE

    def close(self) -> None:
        """Leaves the group, commits if it does so by itself, and ends."""
        self.inner.close()
        self.journal.note(Operation.CLOSE)

    def crash(self) -> None:
        """Ends without a word to the group or to the broker, as a process that is killed."""
        self.journal.note(Operation.CLOSE)
        del self.inner  # librdkafka then neither commits nor leaves the group

    def _note_received(self, message: Message, call: int) -> None:
        topic = message.topic()
        assert topic is not None
        try:
            receives = self._receives[topic]
        except KeyError:
            stream = self._recording.stream(topic)
            receives = self._receives[topic] = Receives(self.journal, stream, self._group)
        partition, offset = message.partition(), message.offset()
        assert partition is not None and offset is not None
        receives.add((partition, offset), identity_of(message), digest(message.value()), call)

    def _note_assigned(self, partitions: list[TopicPartition]) -> None:
        """Notes each partition with the offset from which it is read."""
        starts = [
            TopicPartition(each.topic, each.partition, start)
            for each, start in zip(partitions, self._starts(partitions), strict=True)
        ]
        if self._resets_to_end and all(each.offset >= 0 for each in starts):
            self.inner.assign(starts)  # the end may have moved since it was asked for
        for each in starts:
            self.journal.note(Operation.ASSIGN, **self._place(each))

    def _starts(self, partitions: list[TopicPartition]) -> list[int]:
        try:
            found = self.inner.committed(partitions, POSITION_S)
        except KafkaException:
            return [NONE] * len(partitions)
        return [each.offset if each.offset >= 0 else self._reset(each) for each in found]

    def _reset(self, partition: TopicPartition) -> int:
        """Returns where a partition starts of which nothing is committed."""
        with suppress(KafkaException):
            ends = self.inner.get_watermark_offsets(partition, POSITION_S)
            if ends is not None:
                return int(ends[1] if self._resets_to_end else ends[0])
        return NONE

    def _positions(self) -> list[TopicPartition]:
        with suppress(KafkaException):
            return list(self.inner.position(self.inner.assignment()))
        return []

    def _note_seek(self, partition: TopicPartition) -> None:
        fields = self._place(partition)
        fields.pop("group")
        self.journal.note(Operation.SEEK, **fields)

    def _on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        """Ends commits; of those that the client makes by itself, only the end is seen."""
        for each in partitions:
            if error is None and each.error is None:
                self._committed[each.topic, each.partition] = each.offset
            waiting = self._committing.get(_key(each))
            failed = error or each.error
            if waiting:
                self._end_commit(waiting.pop(0), failed)
            elif each.offset >= 0 and failed is None:
                self.journal.note(Operation.COMMIT, **self._commit_place(each))
            elif each.offset >= 0:
                self._end_commit(self._invoke_commit(each), failed)
        if self._told is not None:
            self._told(error, partitions)

    def _invoke_commit(self, partition: TopicPartition) -> Call:
        return self.journal.invoke(Operation.COMMIT, **self._commit_place(partition))

    def _end_commit(self, call: Call, error: KafkaError | None) -> None:
        if error is None:
            self.journal.ok(call)
        else:
            self.journal.end(call, of_commit(error), name_of(error))

    def _commit_place(self, place: TopicPartition) -> Fields:
        fields = self._place(place)
        fields["group"] = self._recording.group(self._id)  # who is no member may commit, too
        return fields

    def _place(self, place: TopicPartition) -> Fields:
        fields: Fields = {
            "stream": self._recording.stream(place.topic),
            "partition": place.partition,
            "group": self._group,
        }
        if place.offset >= 0:
            fields["offset"] = place.offset
        return fields


def _is_of_connection(name: str) -> bool:
    """Whether a setting says how to reach a cluster, so that it applies to an administrator, too."""
    return name in ("bootstrap.servers", "client.id", "logger", "error_cb") or name.startswith(
        ("security.", "sasl.", "ssl.", "enable.ssl.")
    )


def _key(place: TopicPartition) -> tuple[str, int, int]:
    return place.topic, place.partition, place.offset


def _after(message: Message, count: int) -> TopicPartition:
    """Returns the offset of a message and `count` more."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None and partition is not None and offset is not None
    return TopicPartition(topic, partition, offset + count)


def identity_of(message: Message) -> tuple[int, int]:
    """Returns the producer and the number of a message; `UNKNOWN` if it says none."""
    found: Any = message.headers()  # a list of pairs
    for name, value in found or ():
        if name == HEADER:
            return decode(value if isinstance(value, bytes) else None)
    return UNKNOWN
