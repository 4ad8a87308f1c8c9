"""Entries of a storage party's log: batches as they arrived, plain records, low-water marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from veristream.kabis.protocol.batch import (
    HEAD_BYTES_MAX,
    Batch,
    SignedHeader,
)
from veristream.kabis.protocol.codec import Coded, DecodeError, Octets, Reader, domain_tag
from veristream.kabis.protocol.fields import U64, at_most
from veristream.kabis.protocol.partitions import PartitionName, StreamName
from veristream.kabis.protocol.plain import SESSION_BYTES, PlainAppend, PlainEntry

CHECKPOINT_STREAMS_MAX = 1000

_BATCH_TAG = domain_tag("batch-entry")
_OFFSET_BYTES = 8


@dataclass(frozen=True, slots=True)
class Extent:
    """The first position kept, and the next one to be written."""

    low_water: U64
    end: U64


@dataclass(frozen=True, slots=True)
class Checkpoint(Coded, kind="storage-checkpoint"):
    """The extents of streams and partitions, written before their oldest entries are released."""

    streams: Annotated[tuple[tuple[StreamName, Extent], ...], at_most(CHECKPOINT_STREAMS_MAX)] = ()
    partitions: Annotated[tuple[tuple[PartitionName, Extent], ...], at_most(CHECKPOINT_STREAMS_MAX)] = ()


@dataclass(frozen=True, slots=True)
class BatchEntry:
    """A batch as it arrived, and the offset of its first event in the partition."""

    first_offset: int
    data: Octets

    @property
    def signed(self) -> SignedHeader:
        """The batch's signed header, decoded without the events."""
        return SignedHeader.read(Reader(bytes(self.data[:HEAD_BYTES_MAX]), Batch.KIND))

    def parts(self) -> tuple[Octets, Octets]:
        """Returns the entry as a record of the log in two parts: the prefix and the batch."""
        return _BATCH_TAG + self.first_offset.to_bytes(_OFFSET_BYTES, "big"), self.data

    def encode(self) -> bytes:
        """Returns the entry as one record of the log."""
        return b"".join(self.parts())


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """The position of a batch in the log; `again` if it was stored before."""

    position: int
    digest: bytes
    again: bool


@dataclass(frozen=True, slots=True)
class Appended:
    """The position of plain records in the log, and the offset of the first."""

    position: int
    first_offset: int


Entry = BatchEntry | PlainEntry | Checkpoint


def decode_entry(data: bytes) -> Entry:
    """Decodes a record of the log, but not the batch inside; raises DecodeError."""
    if data.startswith(_BATCH_TAG):
        start = len(_BATCH_TAG) + _OFFSET_BYTES
        if len(data) < start:
            raise DecodeError("truncated: an entry without its offset")
        first_offset = int.from_bytes(data[len(_BATCH_TAG) : start], "big")
        return BatchEntry(first_offset, memoryview(data)[start:])
    if data.startswith(domain_tag(PlainEntry.KIND)):
        return PlainEntry.decode(data)
    return Checkpoint.decode(data)


def show_plainly(entry: Entry) -> PlainEntry:
    """Returns an entry as consumers see it that do not validate."""
    if isinstance(entry, PlainEntry):
        return entry
    assert isinstance(entry, BatchEntry)
    batch = Batch.decode(entry.data)
    place = PartitionName(batch.header.topic, batch.header.partition)
    append = PlainAppend(place, bytes(SESSION_BYTES), batch.header.first_sequence, batch.leaves)
    return PlainEntry(entry.first_offset, append)


def make_checkpoint(extents: Sequence[tuple[StreamName | PartitionName, Extent]]) -> Checkpoint:
    """Returns the checkpoint of these extents."""
    return Checkpoint(
        tuple((name, extent) for name, extent in extents if isinstance(name, StreamName)),
        tuple((name, extent) for name, extent in extents if isinstance(name, PartitionName)),
    )
