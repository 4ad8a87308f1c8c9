"""Events of one partition that are sent to Kafka together, and their offsets.

A delivery report for every event would cost more than sending it, so only the first and the last event of
a parcel have one. None in between can have failed, because the producer stops at the first failure that is
not a timeout (`enable.gapless.guarantee`), and none can have timed out if the last was delivered before the
first could time out. If there are as many offsets between the two as events, they are those of the events.
Otherwise another producer's events lie between ours, and the partition is read if a program asks for the
offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from confluent_kafka import KafkaError, Message

from veristream.kabis.client.pushes import Parcel
from veristream.kabis.protocol.records import Record

TOGETHER = 100
"""How many events are handed over at once where many arrive."""
SMALL_BYTES = 16 << 10

Content = bytes | None | tuple[bytes, bytes | None]
"""What identifies an event: its value, preceded by its key if it has one.

Not always a pair, because many thousands are in flight and the garbage collector skips bytes.
"""


def content_of(key: bytes | None, value: bytes | None) -> Content:
    """Returns what identifies an event."""
    return value if key is None else (key, value)


Report = Callable[[KafkaError | None, Message], None]
"""Takes Kafka's delivery report of an event."""


class PlainParcel(Parcel):
    """A parcel of events, of which the first `sent` were handed to Kafka's client.

    With `full` events it must be handed over before it takes another. `whole` is the newest event as it was
    pushed, if it has headers or a timestamp or is large; it is handed over by itself. With `each`, every
    event has a delivery report; otherwise the next one has if `asks` is true, and the last one. `report`
    takes the reports. `indices` are the reported offsets, None where Kafka reported only that it has the
    event; none is less than `after`. `seen` is the number of events at the last look. Nothing is added once
    it has `ended`, and nothing is settled before.
    """

    __slots__ = (
        *("after", "asks", "begun_s", "contents", "each", "ended", "full", "indices", "report", "seen"),
        *("sent", "whole"),
    )

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(topic, partition, 0, 0)
        self.contents: list[Content] = []
        self.sent = 0
        self.full = TOGETHER
        self.whole: Record | None = None
        self.indices: list[int | None] = []
        self.report: Report
        self.after = 0
        self.each = False
        self.asks = True
        self.ended = False
        self.begun_s = 0.0
        self.seen = 0

    @property
    def count(self) -> int:
        """The number of events."""
        return self._taken + len(self.contents)

    def take(self, record: Record) -> None:
        """Adds an event; one that is large or has headers or a timestamp is handed over before the next."""
        self.contents.append(content_of(record.key, record.value))
        if record.headers or record.timestamp_ms is not None or not is_small(record):
            self.whole, self.full = record, 0

    def forget(self) -> None:
        """Drops the events, once nobody has to look for them any more."""
        self._taken, self.contents = len(self.contents), []


def is_small(record: Record) -> bool:
    """Whether many events like this one may wait to be handed over together."""
    return len(record.value or b"") <= SMALL_BYTES and len(record.key or b"") <= SMALL_BYTES


def size_of(parcel: PlainParcel) -> int:
    """Returns the bytes of its events' values."""
    values = [each[1] if isinstance(each, tuple) else each for each in parcel.contents]
    return sum(len(value or b"") for value in values)


def are_consecutive(first: int, last: int, count: int) -> bool:
    """Whether `count` events fill all offsets from the first to the last."""
    return last - first == count - 1


def find_offsets(sent: Sequence[Content], kept: Iterable[tuple[int, Content]]) -> list[int] | None:
    """Returns the offsets of events among those of a partition, in order; None if one is missing.

    If another producer's event has the same key and value as ours, either offset is right.
    """
    offsets: list[int] = []
    for offset, content in kept:
        if len(offsets) < len(sent) and content == sent[len(offsets)]:
            offsets.append(offset)
    return offsets if len(offsets) == len(sent) else None
