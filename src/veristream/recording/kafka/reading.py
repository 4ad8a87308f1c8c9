"""Reading partitions to their end, so that what is missing is known to be lost.

The end of a log may be below an offset that was acknowledged: what was there is lost, and nothing came
after it. A reader that waited a while at such an end has seen all there is up to that offset, and says so.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from veristream.errors import EnvironmentFailure
from veristream.history.events import Operation
from veristream.recording.journal import Call
from veristream.recording.kafka.consumer import RecordedConsumer
from veristream.recording.recording import DRAIN_S, Recording

PATIENCE_S: Final = 60.0
"""How long a reader waits for anything new before it gives up."""

SETTLE_S: Final = 3.0
"""How long a reader waits for what was acknowledged and is not there: followers may have to catch up."""

AT_ONCE: Final = 500
ANSWER_S: Final = 20.0


def read_to_end(
    recording: Recording, reader: RecordedConsumer, topic: str, partitions: Sequence[int]
) -> None:
    """Reads partitions from their first offset to their end, and notes each as read to the end.

    The end is what the reader may see: of isolation `read_committed`, where the first transaction begins
    that is not over. The reader must ask to be told where partitions end. Raises EnvironmentFailure if a
    partition cannot be read.
    """
    time.sleep(2 * DRAIN_S)  # what was acknowledged is known then
    one = _Reading(recording, reader, topic, partitions)
    while one.calls:
        for message in reader.consume(AT_ONCE, 0.5):
            error = message.error()
            one.hear()
            if error is None:
                continue
            if error.code() != KafkaError._PARTITION_EOF:
                one.said = error.str()
                continue
            partition, offset = message.partition(), message.offset()
            assert partition is not None and offset is not None
            one.ends[partition] = offset
        one.look()


class _Reading:
    """The partitions that are being read, and how far each is."""

    def __init__(
        self, recording: Recording, reader: RecordedConsumer, topic: str, partitions: Sequence[int]
    ) -> None:
        self.ends: dict[int, int] = {}
        self.said = "nothing came"
        self.calls: dict[int, Call] = {}
        self._reader = reader
        self._topic = topic
        stream = self._stream = recording.stream(topic)
        begins = {each: _bounds(reader, topic, each)[0] for each in partitions}
        self._wanted = {each: recording.acknowledged(stream, each) + 1 for each in partitions}
        for each, begin in begins.items():
            self.calls[each] = reader.journal.invoke(
                Operation.READ_TO_END, stream=stream, partition=each, number=begin
            )
        reader.assign([TopicPartition(topic, each, begin) for each, begin in begins.items()])
        self._heard_s = time.monotonic()

    def hear(self) -> None:
        """Something came."""
        self._heard_s = time.monotonic()

    def look(self) -> None:
        """Ends what is at its end; raises EnvironmentFailure after too long a silence."""
        silent_s = time.monotonic() - self._heard_s
        for partition in list(self.calls):
            end = self.ends.get(partition)
            if end is None:
                continue
            wanted = self._wanted[partition]
            if end >= wanted:
                self._end(partition, end)
            elif silent_s > SETTLE_S:
                self._end(partition, wanted if self._is_log_end(partition, end) else end)
        if silent_s > PATIENCE_S and self.calls:
            for call in self.calls.values():
                self._reader.journal.fail(call, self.said)
            raise EnvironmentFailure(
                f"{self._topic} cannot be read to its end: {self.said}", "look at log.txt of the brokers"
            )

    def _end(self, partition: int, offset: int) -> None:
        """Notes that all was read that may be, and how long the log is: more may be there."""
        journal, call = self._reader.journal, self.calls.pop(partition)
        journal.ok(call, offset=offset)
        end = self._reader.log_end(self._topic, partition, ANSWER_S)
        if end > 0:
            place = {"stream": self._stream, "partition": partition}
            journal.ok(journal.invoke(Operation.READ_TO_END, **place, number=end), offset=end)

    def _is_log_end(self, partition: int, end: int) -> bool:
        """Whether the reader is at the end of the log, and not before a transaction that is not over."""
        return self._reader.log_end(self._topic, partition, ANSWER_S) == end


def _bounds(reader: RecordedConsumer, topic: str, partition: int) -> tuple[int, int]:
    """Returns a partition's first offset and its end; asks again while its leader is being found."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            low, high = reader.get_watermark_offsets(TopicPartition(topic, partition), ANSWER_S)
            return int(low), int(high)
        except KafkaException as failure:
            if time.monotonic() > deadline_s:
                raise EnvironmentFailure(
                    f"partition {partition} of {topic} does not answer: {failure}",
                    "look at log.txt of the brokers",
                ) from failure
            time.sleep(0.2)
