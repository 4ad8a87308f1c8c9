"""What a storage party accepts: batches that the chain may admit, and only so many that it has not.

A receipt never expires: the chain may admit a stored batch at any time, as long as its sequence number is
free and its key is valid. So a party may not drop such a batch however old it is; it would be accused of
losing it. Instead it bounds how much of this a producer may leave with it.

Whatever a later block may allow is refused with `BehindError`, because the party may lag behind the chain.
Producers try again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from veristream.kabis.protocol.actions import Right, to_write
from veristream.kabis.protocol.batch import BATCH_EVENTS_MAX, BatchHeader
from veristream.kabis.protocol.partitions import PartitionName, stream_of
from veristream.kabis.storage.chain import ChainView, TopicPolicy


class StorageRefusedError(Exception):
    """The party refuses a request."""


class BehindError(StorageRefusedError):
    """The party refuses a request that it may accept after a later block."""


@dataclass(frozen=True, slots=True)
class WaitingLimits:
    """How much may wait at one party for its admission.

    `total_bytes` is shared fairly: beyond it, a producer that has less than its share is still accepted.
    """

    producer_batches: int = 4096
    producer_bytes: int = 64 << 20
    total_bytes: int = 1 << 30
    window: int = 1000 * BATCH_EVENTS_MAX
    """How far a sequence number may be ahead of the producer's next one on the chain."""


class Waiting:
    """The batches that were stored and not yet admitted: their numbers and sizes by producer."""

    def __init__(self) -> None:
        self.batches: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self.total_bytes = 0

    def add(self, producer: str, size_bytes: int) -> None:
        """Counts a stored batch."""
        self.batches[producer] += 1
        self.bytes[producer] += size_bytes
        self.total_bytes += size_bytes

    def remove(self, producer: str, size_bytes: int) -> None:
        """Counts a batch that was admitted or removed."""
        self.total_bytes -= size_bytes
        self.bytes[producer] -= size_bytes
        self.batches[producer] -= 1
        if not self.batches[producer]:
            del self.batches[producer], self.bytes[producer]

    def find_excess(self, producer: str, size_bytes: int, limits: WaitingLimits) -> str | None:
        """Returns why one more batch of a producer would be too much, or None."""
        batches, held = self.batches[producer] + 1, self.bytes[producer] + size_bytes
        if batches > limits.producer_batches:
            return f"{limits.producer_batches} batches of {producer!r} already wait for their admission"
        if held > limits.producer_bytes:
            return f"{limits.producer_bytes} bytes of {producer!r} may wait for their admission, not {held}"
        share = limits.total_bytes // len(self.batches.keys() | {producer})
        if self.total_bytes + size_bytes > limits.total_bytes and held > share:
            return f"{self.total_bytes} bytes wait for their admission, and {share} may be of {producer!r}"
        return None


class Gate:
    """Decides by the chain, as far as the party has followed it, what may be stored."""

    def __init__(self, view: ChainView, limits: WaitingLimits = WaitingLimits()) -> None:
        self.view = view
        self.limits = limits

    def require(self, header: BatchHeader, digest: bytes, public: bytes) -> bool:
        """Returns whether the batch still waits for its admission; raises StorageRefusedError."""
        view, name = self.view, header.producer
        place = PartitionName(header.topic, header.partition)
        if not self.require_partition(place).validated:
            raise BehindError(f"the topic {header.topic!r} is not validated {self._seen()}")
        if not view.is_key(name, header.key_epoch, public):
            raise BehindError(f"the key of {name!r}, epoch {header.key_epoch}, is unknown {self._seen()}")
        if view.has_ended(name, header.key_epoch):
            raise StorageRefusedError(f"the key of {name!r} has ended")
        stream, first = stream_of(header), header.first_sequence
        expected = view.next_sequence(stream)
        if first < expected:
            if view.digest_of(stream, first) != digest:
                raise StorageRefusedError(f"sequence {first} is taken: {expected} is the next")
            return False
        self.require_right(name, to_write(header.topic))
        if first - expected > self.limits.window:
            raise BehindError(f"sequence {first} is too far ahead of {expected}, the next {self._seen()}")
        return True

    def require_partition(self, place: PartitionName) -> TopicPolicy:
        """Returns the policy of a partition's topic. Raises BehindError if there is no such partition."""
        if not self.view.is_current:
            raise BehindError(f"this party still follows the chain, to block {self.view.height} so far")
        topic = self.view.topics.get(place.topic)
        if topic is None or place.partition >= topic.partitions:
            raise BehindError(f"there is no partition {place.topic}-{place.partition} {self._seen()}")
        return topic

    def require_right(self, name: str, right: Right) -> None:
        """Raises BehindError unless a client has a right."""
        if not self.view.may(name, right):
            raise BehindError(f"{name!r} lacks the right: {right}, {self._seen()}")

    def _seen(self) -> str:
        return f"up to block {self.view.height}, the last that this party has seen; try again"
