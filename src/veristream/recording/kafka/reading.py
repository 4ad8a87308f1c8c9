"""Reading partitions to their end, so that what is missing is known to be lost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from veristream.errors import EnvironmentFailure
from veristream.history.events import Operation
from veristream.recording.kafka.consumer import RecordedConsumer
from veristream.recording.recording import Recording

PATIENCE_S: Final = 60.0
"""How long a reader waits for anything new before it gives up."""

AT_ONCE: Final = 500
ANSWER_S: Final = 20.0


def read_to_end(
    recording: Recording, reader: RecordedConsumer, topic: str, partitions: Sequence[int]
) -> None:
    """Reads partitions from their first offset to their end, and notes each as read to the end.

    The end is what the reader may see: of isolation `read_committed`, where the first transaction begins
    that is not over. Raises EnvironmentFailure if a partition cannot be read.
    """
    stream = recording.stream(topic)
    begins = {each: _first(reader, topic, each) for each in partitions}
    calls = {
        each: reader.journal.invoke(
            Operation.READ_TO_END, stream=stream, partition=each, number=begins[each]
        )
        for each in partitions
    }
    reader.assign([TopicPartition(topic, each, begins[each]) for each in partitions])
    deadline_s = time.monotonic() + PATIENCE_S
    said = "nothing came"
    while calls:
        for message in reader.consume(AT_ONCE, 0.5):
            error = message.error()
            deadline_s = time.monotonic() + PATIENCE_S
            if error is None:
                continue
            if error.code() != KafkaError._PARTITION_EOF:
                said = error.str()
            elif (partition := message.partition()) in calls:
                end = message.offset()
                assert partition is not None and end is not None
                reader.journal.ok(calls.pop(partition), offset=end)
        if time.monotonic() > deadline_s:
            for call in calls.values():
                reader.journal.fail(call, said)
            raise EnvironmentFailure(
                f"{topic} cannot be read to its end: {said}",
                "look at log.txt of the brokers",
            )


def _first(reader: RecordedConsumer, topic: str, partition: int) -> int:
    """Returns a partition's first offset; asks again while its leader is being found."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return int(reader.get_watermark_offsets(TopicPartition(topic, partition), ANSWER_S)[0])
        except KafkaException as failure:
            if time.monotonic() > deadline_s:
                raise EnvironmentFailure(
                    f"partition {partition} of {topic} does not answer: {failure}",
                    "look at log.txt of the brokers",
                ) from failure
            time.sleep(0.2)
