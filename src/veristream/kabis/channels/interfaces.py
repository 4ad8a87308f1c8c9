"""The two interfaces that clients stand on: a storage party, and the ordering.

Both are small, so that Kafka can stand behind the one and CometBFT behind the other. Neither is trusted:
what a storage party gives is checked against the ledger, and a block counts by its certificate. The methods
raise one of `FAILURES` when an answer is missing, late, refused or unreadable; anything else is a bug.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from veristream.kabis.kafka.settings import KafkaSettings
from veristream.kabis.protocol.answers import Absent, Below
from veristream.kabis.protocol.batch import SignedHeader
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.certificates import Certificate
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.outcomes import Outcome
from veristream.kabis.protocol.partitions import PartitionName, StreamName
from veristream.kabis.protocol.plain import PlainAppend, PlainSlice
from veristream.kabis.protocol.receipts import StorageAbsence, StorageReceipt
from veristream.kabis.protocol.records import murmur2


class Storage(Protocol):
    """One storage party."""

    @property
    def name(self) -> str:
        """The party's name in the genesis."""

    @property
    def problem(self) -> Exception | None:
        """Why the party cannot be reached, as far as is known."""

    async def store(self, batch: bytes, digest: bytes) -> StorageReceipt:
        """The party's good receipt for an encoded batch with this digest, given once it is durable."""

    async def fetch_bytes(self, digest: bytes) -> bytes | Absent | Below:
        """What the party says is the batch with this digest; nothing of it is checked."""

    async def fetch_range(self, stream: StreamName, first_sequence: int) -> tuple[bytes, ...] | Below:
        """What the party says are a producer's batches from a sequence number on; nothing is checked."""

    async def absence(self, signed: SignedHeader, certificate: Certificate) -> StorageAbsence | Below:
        """The party's good statement that it does not have a batch at the certificate's height."""

    async def append_plain(self, append: PlainAppend) -> int:
        """Writes events of a topic that is not validated and gives the offset of the first."""

    async def fetch_plain(
        self, place: PartitionName, offset: int, bytes_max: int, wait_ms: int
    ) -> PlainSlice | Below:
        """Events of a topic that is not validated, from an offset on; waits that long for the first."""

    async def close(self) -> None:
        """Lets go of the party."""


@dataclass(frozen=True, slots=True)
class OrderingStatus:
    """How far the chain is, by the validators that answered, and how many those are.

    `height` is the highest that F+1 of them claim to have reached, so that a correct one has, or that one
    of them has shown the block of.
    """

    height: int
    answered: int


class Ordering(Protocol):
    """The validators, as clients see them."""

    async def submit(self, validator: int, transaction: bytes) -> Outcome:
        """What one validator, by its number in the genesis, expects to become of a transaction.

        It is a hint: only a certified block says what became of it.
        """

    def follow(self, height: int) -> AsyncIterator[CertifiedBlock]:
        """Decided blocks from this height on, one after the other, for as long as somebody listens."""

    async def read(self, first: int, last: int) -> Sequence[CertifiedBlock]:
        """The decided blocks of these heights, both included, as far as there are any."""

    async def status(self) -> OrderingStatus:
        """How far the chain is."""

    async def spread(self, height: int) -> None:
        """Waits until enough validators have a block that everybody's `status` knows of it."""

    async def close(self) -> None:
        """Lets go of the validators."""


@dataclass(frozen=True, slots=True)
class Channels:
    """The paper's two channels: the storage parties in the genesis' order, and the validation channel.

    `kafka` are the parties' Kafka clusters: where they have some, topics that are not validated go there.
    """

    storage: tuple[Storage, ...]
    ordering: Ordering
    kafka: Mapping[str, KafkaSettings] = field(default_factory=dict)

    async def close(self) -> None:
        """Lets go of both."""
        for party in self.storage:
            await party.close()
        await self.ordering.close()


Connect = Callable[[], Awaitable[Channels]]
"""Opens the channels, in the event loop that will use them."""


def party_of(genesis: Genesis, topic: str) -> str:
    """The storage party that keeps a topic which is not validated, the same for everybody."""
    return genesis.storage[murmur2(topic.encode("utf-8")) % len(genesis.storage)].name
