"""What a storage party writes into its log: batches as they arrived, plain records, low-water marks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from veristream.kabis.protocol.batch import (
    HEAD_BYTES_MAX,
    Batch,
    SignedHeader,
)
from veristream.kabis.protocol.codec import Coded, DecodeError, Octets, Reader, domain_tag
from veristream.kabis.protocol.fields import U64, at_most
from veristream.kabis.protocol.partitions import PartitionName, StreamName
from veristream.kabis.protocol.plain import PlainEntry

CHECKPOINT_STREAMS_MAX = 1000

_BATCH_TAG = domain_tag("batch-entry")
_OFFSET_BYTES = 8


@dataclass(frozen=True, slots=True)
class Extent:
    """From where on something is kept, and where it will go on."""

    low_water: U64
    end: U64


@dataclass(frozen=True, slots=True)
class Checkpoint(Coded):
    """The extents of streams and partitions, written before their oldest entries are let go."""

    KIND: ClassVar[str] = "storage-checkpoint"

    streams: Annotated[tuple[tuple[StreamName, Extent], ...], at_most(CHECKPOINT_STREAMS_MAX)] = ()
    partitions: Annotated[tuple[tuple[PartitionName, Extent], ...], at_most(CHECKPOINT_STREAMS_MAX)] = ()


@dataclass(frozen=True, slots=True)
class BatchEntry:
    """A batch as it arrived, and the offset that its first event got among all of the partition's."""

    first_offset: int
    data: Octets

    @property
    def signed(self) -> SignedHeader:
        """The batch's signed header; the events are not looked at."""
        return SignedHeader.read(Reader(bytes(self.data[:HEAD_BYTES_MAX]), Batch.KIND))

    def parts(self) -> tuple[Octets, Octets]:
        """The entry as a record of the log: what goes before the batch, and the batch."""
        return _BATCH_TAG + self.first_offset.to_bytes(_OFFSET_BYTES, "big"), self.data

    def encode(self) -> bytes:
        """The entry as a record of the log, in one."""
        return b"".join(self.parts())


Entry = BatchEntry | PlainEntry | Checkpoint


def decode_entry(data: bytes) -> Entry:
    """What a record of the log is; a batch is not taken apart."""
    if data.startswith(_BATCH_TAG):
        start = len(_BATCH_TAG) + _OFFSET_BYTES
        if len(data) < start:
            raise DecodeError("an entry that is cut off")
        first_offset = int.from_bytes(data[len(_BATCH_TAG) : start], "big")
        return BatchEntry(first_offset, memoryview(data)[start:])
    if data.startswith(domain_tag(PlainEntry.KIND)):
        return PlainEntry.decode(data)
    return Checkpoint.decode(data)
