"""Chooses the partition of an event, as the clients of Kafka do."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from veristream.kabis.client.errors import UnknownTopicError
from veristream.kabis.protocol.records import Record, choose_partition

KEYS_REMEMBERED = 10_000


class Queue(Protocol):
    """What waits to be sent to one partition."""

    @property
    def open(self) -> object | None:
        """The parcel that takes further events, if there is one."""


QueueType = TypeVar("QueueType", bound=Queue)


class Partitioner(Generic[QueueType]):
    """Finds the queue of an event among those of a topic, one for each partition."""

    __slots__ = ("_keys", "_sticky", "queues")

    def __init__(self, queues: list[QueueType]) -> None:
        self.queues = queues
        self._keys: dict[bytes, int] = {}
        self._sticky = 0

    def find(self, record: Record) -> QueueType:
        """Returns the queue of the event's partition, or of the one chosen for it.

        Raises UnknownTopicError if the topic has no such partition.
        """
        partition = record.partition
        if partition is None:
            return self.queues[self._choose(record.key)]
        if not 0 <= partition < len(self.queues):
            raise UnknownTopicError(record.topic, f"there is no partition {partition}")
        return self.queues[partition]

    def _choose(self, key: bytes | None) -> int:
        """Hashes the key; fills one parcel after the other, in turn, with events that have no key."""
        if key is None:
            if self.queues[self._sticky].open is None:
                self._sticky = (self._sticky + 1) % len(self.queues)
            return self._sticky
        partition = self._keys.get(key)
        if partition is None:
            partition = choose_partition(key, len(self.queues))
            if len(self._keys) >= KEYS_REMEMBERED:
                self._keys.clear()
            self._keys[key] = partition
        return partition
