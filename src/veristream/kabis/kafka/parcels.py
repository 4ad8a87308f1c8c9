"""Events of one partition that go to Kafka together, and where they come to stand.

Kafka's word on every single event would cost more than sending it. So it is asked for the first and the
last of a parcel. If as many offsets lie between the two as events, those are the events': none in between
can have failed, for the producer stops at the first failure that is not a timeout
(`enable.gapless.guarantee`), and none can have timed out if the last was delivered before the first could
have. Else another producer's events lie between ours, or some of ours are missing, and the partition is
read again to see.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from veristream.kabis.pushes import Parcel
from veristream.kabis.records import Record


class PlainParcel(Parcel):
    """A parcel of records as they were pushed; `each` if Kafka is asked about every one of them.

    `indices` are the offsets that Kafka told, None where it only said that it has the event; none of them
    lies before `after`. It `asks` as long as Kafka is to be asked about the next event to go out. Nothing
    is added once it has `ended`, and nothing is settled before.
    """

    __slots__ = ("after", "asks", "begun_s", "each", "ended", "indices", "records")

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(topic, partition, 0, 0)
        self.records: list[Record] = []
        self.indices: list[int | None] = []
        self.after = 0
        self.each = False
        self.asks = True
        self.ended = False
        self.begun_s = 0.0

    @property
    def count(self) -> int:
        """How many events it has."""
        return len(self.records)


def are_consecutive(first: int, last: int, count: int) -> bool:
    """Whether so many events fill all offsets from the first's to the last's."""
    return last - first == count - 1


Content = tuple[bytes | None, bytes | None]
"""A key and a value."""


def find_offsets(sent: Sequence[Content], kept: Iterable[tuple[int, Content]]) -> list[int] | None:
    """Where events stand among those that a partition holds, in their order; None if one is missing.

    Where another's event has the same key and value as ours, either is right: nobody can tell them apart.
    """
    offsets: list[int] = []
    for offset, content in kept:
        if len(offsets) < len(sent) and content == sent[len(offsets)]:
            offsets.append(offset)
    return offsets if len(offsets) == len(sent) else None
