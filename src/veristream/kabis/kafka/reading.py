"""Reads messages of one partition by offset."""

from __future__ import annotations

import time
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from veristream.kabis.kafka.failures import DamagedRecord, Troubles, error_of, patiently
from veristream.kabis.kafka.settings import KafkaSettings
from veristream.kabis.kafka.topics import ANSWER_S, configure

CHUNK = 64
STEP_S = 0.2
FETCH_BYTES = 32 << 20


def known_offset(message: Message) -> int | None:
    """Returns the offset of a message; None if Kafka reported only that it has it, as after a retry."""
    offset = message.offset()
    return None if offset is None or offset < 0 else offset


class PartitionReader:
    """Reads a partition from any offset; fetches nothing between two calls."""

    def __init__(self, settings: KafkaSettings, topic: str, partition: int = 0) -> None:
        self.where = f"the topic {topic} of Kafka at {settings.bootstrap}"
        self._place = (topic, partition)
        self._troubles = Troubles(settings)
        self._consumer = Consumer(
            configure(
                settings,
                self._troubles,
                group_id="kabis-nobody",  # the client requires a name; nothing is ever committed
                enable_auto_commit=False,
                enable_partition_eof=True,
                auto_offset_reset="error",
                fetch_wait_max_ms=50,
                fetch_message_max_bytes=FETCH_BYTES // 2,
                fetch_max_bytes=FETCH_BYTES,
                receive_message_max_bytes=2 * FETCH_BYTES,
            )
        )

    def bounds(self) -> tuple[int, int]:
        """Returns the first offset, and the offset of the next message."""
        try:
            low, high = patiently(self._find_bounds, ANSWER_S)
        except KafkaException as error:
            self._consumer.poll(0)
            raise self._troubles.explain(f"find the ends of {self.where}", error_of(error)) from error
        return low, high

    def _find_bounds(self) -> tuple[int, int]:
        return self._consumer.get_watermark_offsets(TopicPartition(*self._place), timeout=ANSWER_S)

    def offset_at(self, time_ms: int) -> int | None:
        """Returns the first offset of that time or later, or None."""
        asked = TopicPartition(*self._place, time_ms)
        try:
            (found,) = self._consumer.offsets_for_times([asked], timeout=ANSWER_S)
        except KafkaException as error:
            raise self._troubles.explain(f"find a time in {self.where}", error_of(error)) from error
        return found.offset if found.offset >= 0 else None

    def messages(self, start: int, limit: int, patience_s: float) -> Iterator[Message]:
        """Yields the messages from an offset up to another, or to the end of the partition.

        Raises KafkaFailure if none arrives in time, and DamagedRecord if the client cannot decode the
        broker's bytes.
        """
        at = start
        self._consumer.assign([TopicPartition(*self._place, start)])
        try:
            deadline_s = time.monotonic() + patience_s
            while at < limit:
                for message in self._consumer.consume(min(CHUNK, limit - at), STEP_S):
                    ended = self._check(message, at)
                    if ended or (message.offset() or 0) >= limit:
                        return
                    yield message
                    at = (message.offset() or 0) + 1
                    deadline_s = time.monotonic() + patience_s
                if time.monotonic() > deadline_s:
                    raise self._troubles.explain(f"read {self.where} from offset {at} on")
        finally:
            self._consumer.unassign()

    def _check(self, message: Message, at: int) -> bool:
        """Whether the partition ends here. Raises an error that prevents further reading."""
        error = message.error()
        if error is None:
            return False
        if error.code() == KafkaError._PARTITION_EOF:
            return True
        if error.code() in (KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError._UNDERFLOW):
            raise DamagedRecord(self.where, at, error.str())
        raise self._troubles.explain(f"read {self.where} from offset {at} on", error)

    def close(self) -> None:
        """Closes the connection."""
        self._consumer.close()
