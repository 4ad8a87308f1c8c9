"""What a storage party writes into its log: batches as they arrived, plain records, low-water marks."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import ClassVar, Self

from veristream.kabis.protocol.batch import (
    BATCH_BYTES_MAX,
    BATCH_EVENTS_MAX,
    HEAD_BYTES_MAX,
    Batch,
    SignedHeader,
)
from veristream.kabis.protocol.codec import Coded, DecodeError, Octets, Reader, Writer, domain_tag
from veristream.kabis.protocol.records import LEAF_BYTES_MAX

SESSION_BYTES = 16
CHECKPOINT_STREAMS_MAX = 1000

_BATCH_TAG = domain_tag("batch-entry")
_OFFSET_BYTES = 8


@dataclass(frozen=True, slots=True)
class StreamName:
    """Whose batches: one producer under one key, in one partition of a topic."""

    topic: str
    partition: int
    producer: str
    key_epoch: int

    def write(self, writer: Writer) -> None:
        """Appends the name."""
        writer.text(self.topic)
        writer.u32(self.partition)
        writer.text(self.producer)
        writer.u32(self.key_epoch)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Takes a name."""
        return cls(reader.text(), reader.u32(), reader.text(), reader.u32())


@dataclass(frozen=True, slots=True)
class PartitionName:
    """A partition of a topic that is not validated."""

    topic: str
    partition: int

    def write(self, writer: Writer) -> None:
        """Appends the name."""
        writer.text(self.topic)
        writer.u32(self.partition)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Takes a name."""
        return cls(reader.text(), reader.u32())


@dataclass(frozen=True, slots=True)
class PlainAppend(Coded):
    """Events for a partition that is not validated.

    `session` names the producer's run and `sequence` counts its appends to the partition from 0: an append
    that is sent again, because its answer was lost, is not kept twice, and none overtakes another.
    """

    KIND: ClassVar[str] = "plain-append"
    BYTES_MAX: ClassVar[int] = BATCH_BYTES_MAX

    place: PartitionName
    session: bytes
    sequence: int
    leaves: tuple[bytes, ...]

    def write(self, writer: Writer) -> None:
        """Appends where it goes, then the events."""
        self.place.write(writer)
        writer.fixed(self.session, SESSION_BYTES)
        writer.u64(self.sequence)
        write_leaves(writer, self.leaves)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Takes an append of one event at least."""
        place = PartitionName.read(reader)
        append = cls(place, reader.fixed(SESSION_BYTES), reader.u64(), read_leaves(reader))
        if not append.leaves:
            raise DecodeError("an append without events")
        return append


@dataclass(frozen=True, slots=True)
class PlainEntry(Coded):
    """An append with the offset that its first event got."""

    KIND: ClassVar[str] = "plain-entry"
    BYTES_MAX: ClassVar[int] = BATCH_BYTES_MAX + 64

    first_offset: int
    append: PlainAppend

    def write(self, writer: Writer) -> None:
        """Appends offset and events."""
        writer.u64(self.first_offset)
        self.append.write(writer)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Takes an entry."""
        return cls(reader.u64(), PlainAppend.read(reader))


@dataclass(frozen=True, slots=True)
class Extent:
    """From where on something is kept, and where it will go on."""

    low_water: int
    end: int


@dataclass(frozen=True, slots=True)
class Checkpoint(Coded):
    """The extents of streams and partitions, written before their oldest entries are let go."""

    KIND: ClassVar[str] = "storage-checkpoint"

    streams: tuple[tuple[StreamName, Extent], ...] = ()
    partitions: tuple[tuple[PartitionName, Extent], ...] = ()

    def write(self, writer: Writer) -> None:
        """Appends every extent with its name."""

        def write_item(item: tuple[StreamName | PartitionName, Extent]) -> None:
            item[0].write(writer)
            writer.u64(item[1].low_water)
            writer.u64(item[1].end)

        writer.items(self.streams, CHECKPOINT_STREAMS_MAX, write_item)
        writer.items(self.partitions, CHECKPOINT_STREAMS_MAX, write_item)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Takes a checkpoint."""

        def read_extent() -> Extent:
            return Extent(reader.u64(), reader.u64())

        return cls(
            reader.items(CHECKPOINT_STREAMS_MAX, lambda: (StreamName.read(reader), read_extent())),
            reader.items(CHECKPOINT_STREAMS_MAX, lambda: (PartitionName.read(reader), read_extent())),
        )


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


def write_leaves(writer: Writer, leaves: Sequence[bytes]) -> None:
    """Appends a table of lengths, then the leaves."""
    writer.u32(len(leaves))
    writer.raw(struct.pack(f">{len(leaves)}I", *map(len, leaves)))
    writer.raw(b"".join(leaves))


def read_leaves(reader: Reader) -> tuple[bytes, ...]:
    """Takes leaves, none of them longer than a leaf may be."""
    count = reader.u32()
    if count > BATCH_EVENTS_MAX:
        raise DecodeError(f"{count} events, at most {BATCH_EVENTS_MAX}")
    lengths = struct.unpack(f">{count}I", reader.fixed(4 * count))
    if max(lengths, default=0) > LEAF_BYTES_MAX:
        raise DecodeError(f"a leaf of {max(lengths)} bytes, at most {LEAF_BYTES_MAX}")
    packed = reader.fixed(sum(lengths))
    return tuple([packed[start:end] for start, end in pairwise(accumulate(lengths, initial=0))])
