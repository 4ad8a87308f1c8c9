"""What is seen of a partition: its offsets, and what a reader of committed records gets."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from veristream.errors import EnvironmentFailure
from veristream.recording.kafka.running import RunningKafka

ANSWER_S: Final = 15.0
POLL_S: Final = 0.1
END_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Offsets:
    """The last stable offset and the high watermark of a partition."""

    stable: int
    high: int


class Observer:
    """Looks at partition 0 of a topic."""

    def __init__(self, kafka: RunningKafka, topic: str) -> None:
        self._settings = kafka.client_settings("observer")
        self._admin = AdminClient(self._settings)
        self._place = TopicPartition(topic, 0)

    def offsets(self) -> Offsets:
        """Returns what the leader says now."""
        levels = (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        return Offsets(*(self._end(each) for each in levels))

    def _end(self, isolation: IsolationLevel) -> int:
        asked = {self._place: OffsetSpec.latest()}  # type: ignore[no-untyped-call]
        found = self._admin.list_offsets(asked, isolation_level=isolation, request_timeout=ANSWER_S)
        return int(found[self._place].result().offset)

    def wait_stable(self, seconds: float) -> Offsets:
        """Waits for so long until all is stable: markers of transactions come a moment after their ends."""
        deadline_s = time.monotonic() + seconds
        while True:
            found = self.offsets()
            if found.stable == found.high or time.monotonic() > deadline_s:
                return found
            time.sleep(POLL_S)

    def wait_beyond(self, high: int, seconds: float) -> None:
        """Waits until the log has grown beyond an offset; raises EnvironmentFailure if it does not."""
        deadline_s = time.monotonic() + seconds
        while self.offsets().high <= high:
            if time.monotonic() > deadline_s:
                raise EnvironmentFailure(
                    f"no marker ends the aborted transaction of {self._place.topic}",
                    "see log.txt of the broker",
                )
            time.sleep(POLL_S)

    def read_committed(self) -> list[bytes]:
        """Returns all values that a reader of committed records gets now."""
        own: dict[str, str | int | float | bool] = {
            "group.id": f"observer-{uuid.uuid4().hex[:12]}",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
        reader = Consumer({**self._settings, **own})
        try:
            reader.assign([TopicPartition(self._place.topic, 0, 0)])
            return self._read(reader)
        finally:
            reader.close()

    def _read(self, reader: Consumer) -> list[bytes]:
        values = []
        deadline_s = time.monotonic() + END_S
        while time.monotonic() < deadline_s:
            message = reader.poll(POLL_S)
            if message is None:
                continue
            error = message.error()
            if error is None:
                values.append(message.value() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:
                return values
        raise EnvironmentFailure(
            f"{self._place.topic} cannot be read to its end", "see log.txt of the broker"
        )
