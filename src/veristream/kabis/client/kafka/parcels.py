"""Events of one partition that go to Kafka together, and where they come to stand.

Kafka's word on every single event would cost more than sending it. So it is asked for the first and the
last of a parcel. None in between can have failed, for the producer stops at the first failure that is not a
timeout (`enable.gapless.guarantee`), and none can have timed out if the last was delivered before the first
could have. If as many offsets lie between the two as events, those are the events'. Else another producer's
events lie between ours, and where ours stand is read in the partition if somebody wants to know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from confluent_kafka import KafkaError, Message

from veristream.kabis.client.pushes import Parcel
from veristream.kabis.protocol.records import Record

TOGETHER = 100
"""How many events are handed over at once where many come."""
SMALL_BYTES = 16 << 10

Content = bytes | None | tuple[bytes, bytes | None]
"""By what an event is known: its value, and before that its key if it has one.

Not always a pair: the collector of garbage passes over bytes, and many thousands are on their way.
"""


def content_of(key: bytes | None, value: bytes | None) -> Content:
    """By what an event is known."""
    return value if key is None else (key, value)


Report = Callable[[KafkaError | None, Message], None]
"""Takes Kafka's word on an event."""


class PlainParcel(Parcel):
    """A parcel of events, of which the first `sent` were handed to Kafka's client.

    It is `full` at so many events: then they have to be handed over before it takes another. `whole` is the
    newest event as it was pushed, if there is more to it than its content; it goes by itself. The client is
    asked about `each` event, or else it `asks` about the next as long as none has gone, and about the last;
    `report` takes the answers. `indices` are the offsets that Kafka told, None where it only said that it
    has the event; none of them lies before `after`. `seen` is how many events there were when it was last
    looked at. Nothing is added once it has `ended`, and nothing is settled before.
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
        """How many events it has."""
        return self._taken + len(self.contents)

    def take(self, record: Record) -> None:
        """Adds an event; one that is large or has more than a content is handed over before the next."""
        self.contents.append(content_of(record.key, record.value))
        if record.headers or record.timestamp_ms is not None or not is_small(record):
            self.whole, self.full = record, 0

    def forget(self) -> None:
        """Lets go of the events, once nobody has to look for them any more."""
        self._taken, self.contents = len(self.contents), []


def is_small(record: Record) -> bool:
    """Whether many events like this one may wait to be handed over together."""
    return len(record.value or b"") <= SMALL_BYTES and len(record.key or b"") <= SMALL_BYTES


def size_of(parcel: PlainParcel) -> int:
    """How many bytes the values of its events have."""
    values = [each[1] if isinstance(each, tuple) else each for each in parcel.contents]
    return sum(len(value or b"") for value in values)


def are_consecutive(first: int, last: int, count: int) -> bool:
    """Whether so many events fill all offsets from the first's to the last's."""
    return last - first == count - 1


def find_offsets(sent: Sequence[Content], kept: Iterable[tuple[int, Content]]) -> list[int] | None:
    """Where events stand among those that a partition holds, in their order; None if one is missing.

    Where another's event has the same key and value as ours, either is right: nobody can tell them apart.
    """
    offsets: list[int] = []
    for offset, content in kept:
        if len(offsets) < len(sent) and content == sent[len(offsets)]:
            offsets.append(offset)
    return offsets if len(offsets) == len(sent) else None
