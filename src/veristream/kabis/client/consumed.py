"""The events that a consumer gets, and their origin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.records import Event, Headers, decode_leaf
from veristream.kabis.protocol.seal import Sealer, SealError

Place = tuple[str, int]
"""A topic and a partition."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What the events of one batch have in common.

    `height` and `time_ms` are those of the block. All but topic and partition are None if the topic is not
    validated.
    """

    topic: str
    partition: int
    producer: str | None
    height: int | None
    time_ms: int | None
    digest: bytes | None


class Consumed(NamedTuple):
    """An event with its index, which is the storage party's offset if `validated` is false."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int | None
    origin: Origin

    @property
    def topic(self) -> str:
        """The topic it was pushed to."""
        return self.origin.topic

    @property
    def partition(self) -> int:
        """The partition that contains it."""
        return self.origin.partition

    @property
    def producer(self) -> str | None:
        """The producer that signed it; None if the topic is not validated."""
        return self.origin.producer

    @property
    def time_ms(self) -> int | None:
        """The time of the block that admitted it; None if the topic is not validated."""
        return self.origin.time_ms

    @property
    def validated(self) -> bool:
        """Whether the ledger has admitted it."""
        return self.origin.digest is not None


@dataclass(frozen=True, slots=True)
class PlainEvents:
    """Events read from a partition of Kafka, the offset after them, and the end of the partition."""

    events: list[Consumed]
    next_offset: int
    end: int
    size_bytes: int


def decode_events(
    leaves: tuple[bytes, ...] | list[bytes], first_index: int, origin: Origin, sealer: Sealer | None
) -> list[Consumed]:
    """Decodes leaves to events; skips a leaf that is not an event or cannot be decrypted.

    The producer signed that leaf, so every consumer skips it, and no storage party is to blame.
    """
    events = []
    for index, leaf in enumerate(leaves, first_index):
        try:
            event = decode_leaf(leaf)
            if sealer is not None:
                event = sealer.open_event(event)
        except (DecodeError, SealError):
            continue
        events.append(Consumed(index, *event, origin))
    return events


def open_events(events: list[Consumed], sealer: Sealer) -> list[Consumed]:
    """Decrypts events; skips those that cannot be decrypted."""
    opened = []
    for index, key, value, headers, timestamp_ms, origin in events:
        try:
            event = sealer.open_event(Event(key, value, headers, timestamp_ms))
            opened.append(Consumed(index, *event, origin))
        except SealError:
            continue
    return opened
