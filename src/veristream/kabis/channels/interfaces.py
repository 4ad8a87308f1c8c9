"""The two interfaces that clients use: a storage party, and the ordering.

Both are small, so that Kafka can implement the one and CometBFT the other. Neither is trusted: a client
checks what a storage party returns against the ledger, and a block counts by its certificate. The methods
raise one of `FAILURES` when an answer is missing, late, refused or false; anything else is a bug.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from veristream.kabis.kafka.settings import KafkaSettings
from veristream.kabis.ledger.snapshot import Manifest
from veristream.kabis.protocol.answers import Absent, Below
from veristream.kabis.protocol.batch import SignedHeader
from veristream.kabis.protocol.blocks import Certificate, CertifiedBlock
from veristream.kabis.protocol.members import Members, Memberships
from veristream.kabis.protocol.outcomes import Outcome
from veristream.kabis.protocol.partitions import PartitionName, StreamName
from veristream.kabis.protocol.plain import PlainAppend, PlainSlice
from veristream.kabis.protocol.receipts import StorageAbsence, StorageReceipt

Value = TypeVar("Value")


class Storage(Protocol):
    """One storage party."""

    @property
    def name(self) -> str:
        """The party's name in the genesis."""

    @property
    def problem(self) -> Exception | None:
        """Why the party cannot be reached, if that is known."""

    async def store(self, batch: bytes, digest: bytes) -> StorageReceipt:
        """Stores an encoded batch with this digest; returns the verified receipt once it is durable."""

    async def fetch_bytes(self, digest: bytes) -> bytes | Absent | Below:
        """Returns what the party claims to be the batch with this digest, unchecked."""

    async def fetch_range(self, stream: StreamName, first_sequence: int) -> tuple[bytes, ...] | Below:
        """Returns what the party claims to be a producer's batches from a sequence number on, unchecked."""

    async def absence(self, signed: SignedHeader, certificate: Certificate) -> StorageAbsence | Below:
        """Returns the verified statement that the party lacks a batch at the certificate's height."""

    async def append_plain(self, append: PlainAppend) -> int:
        """Appends events of a topic that is not validated; returns the offset of the first."""

    async def fetch_plain(
        self, place: PartitionName, offset: int, bytes_max: int, wait_ms: int
    ) -> PlainSlice | Below:
        """Returns events of a topic that is not validated, from an offset on; waits for the first."""

    async def close(self) -> None:
        """Closes the connection to the party."""


@dataclass(frozen=True, slots=True)
class OrderingStatus:
    """The height of the chain, and how many validators answered.

    `height` is the highest that F+1 of them claim, at least one of them correct, or for which one of them
    has returned the block.
    """

    height: int
    answered: int
    enough: bool
    """Whether these were 2F+1."""


class Ordering(Protocol):
    """The validators, as clients see them."""

    async def submit(self, validator: int, transaction: bytes) -> Outcome:
        """Submits a transaction to one validator, by its number in the genesis; returns what it expects.

        The outcome is a hint: only a certified block decides.
        """

    def follow(self, height: int) -> AsyncIterator[CertifiedBlock]:
        """Yields the decided blocks from this height on, in order, without end."""

    async def read(self, first: int, last: int) -> Sequence[CertifiedBlock]:
        """Returns the decided blocks from height `first` to `last`, or fewer if they do not exist yet."""

    async def snapshot(
        self,
        above: int,
        use: Callable[[Manifest, Sequence[bytes]], Value],
        moved: Callable[[], object] = ...,
    ) -> Value | None:
        """Returns what `use` makes of a snapshot above a height; None if no validator has a good one.

        `use` raises FalseSnapshotError if the snapshot does not prove itself; it may run in another thread.
        `moved` is called whenever a part of it has come.
        """

    def heed(self, changes: Iterable[tuple[int, Members]], height: int) -> None:
        """Tells which changes of the members and which height the caller knows.

        Members before a change certify nothing after it; their keys count for nothing once it is in force.
        """

    async def status(self) -> OrderingStatus:
        """Returns the height of the chain."""

    async def spread(self, height: int) -> None:
        """Waits until so many validators have a block that every `status` reports it."""

    async def close(self) -> None:
        """Closes the connections to the validators."""


@dataclass(frozen=True)
class Channels:
    """The two channels of the paper: the storage parties, those in force first, and the ordering.

    `kafka` contains the Kafka clusters of the parties. If there are any, topics that are not validated go
    there.
    """

    storage: Sequence[Storage]
    ordering: Ordering
    kafka: Mapping[str, KafkaSettings] = field(default_factory=dict)

    def follow(self, memberships: Memberships, height: int) -> None:
        """Tells the members at a height; where the storage channels do not change, that does nothing."""

    async def close(self) -> None:
        """Closes both channels."""
        for party in self.storage:
            await party.close()
        await self.ordering.close()


Connect = Callable[[], Awaitable[Channels]]
"""Opens the channels, in the event loop that uses them."""
