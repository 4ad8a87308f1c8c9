"""Events of topics that are not validated, as clients send them to a storage party and read them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Annotated

from veristream.kabis.protocol.answers import ANSWER_BYTES_MAX, RANGE_BATCHES_MAX
from veristream.kabis.protocol.batch import BATCH_BYTES_MAX, BATCH_EVENTS_MAX
from veristream.kabis.protocol.codec import Coded, DecodeError, Reader, Writer
from veristream.kabis.protocol.fields import U64, at_most, by, fixed
from veristream.kabis.protocol.partitions import PartitionName
from veristream.kabis.protocol.records import LEAF_BYTES_MAX

SESSION_BYTES = 16
FROM_END = (1 << 63) - 1
"""The offset to ask for to learn only where a partition ends."""


def write_leaves(writer: Writer, leaves: Sequence[bytes]) -> None:
    """Appends a table of lengths, then the leaves."""
    writer.u32(len(leaves))
    writer.raw(struct.pack(f">{len(leaves)}I", *map(len, leaves)))
    writer.raw(b"".join(leaves))


def read_leaves(reader: Reader) -> tuple[bytes, ...]:
    """Takes leaves within the limits on their number and size."""
    count = reader.u32()
    if count > BATCH_EVENTS_MAX:
        raise DecodeError(f"{count} events, at most {BATCH_EVENTS_MAX}")
    lengths = struct.unpack(f">{count}I", reader.fixed(4 * count))
    if max(lengths, default=0) > LEAF_BYTES_MAX:
        raise DecodeError(f"a leaf of {max(lengths)} bytes, at most {LEAF_BYTES_MAX}")
    packed = reader.fixed(sum(lengths))
    return tuple([packed[start:end] for start, end in pairwise(accumulate(lengths, initial=0))])


@dataclass(frozen=True, slots=True)
class PlainAppend(Coded, kind="plain-append", bytes_max=BATCH_BYTES_MAX):
    """Events for a partition that is not validated.

    `session` names the producer's run and `sequence` counts its appends to the partition from 0: an append
    that is sent again, because its answer was lost, is not kept twice, and none overtakes another.
    """

    place: PartitionName
    session: Annotated[bytes, fixed(SESSION_BYTES)]
    sequence: U64
    leaves: Annotated[tuple[bytes, ...], by(write_leaves, read_leaves)]

    def check(self) -> None:
        """Raises DecodeError if there are no events."""
        if not self.leaves:
            raise DecodeError("an append without events")


@dataclass(frozen=True, slots=True)
class PlainEntry(Coded, kind="plain-entry", bytes_max=BATCH_BYTES_MAX + 64):
    """An append with the offset that its first event got."""

    first_offset: U64
    append: PlainAppend


@dataclass(frozen=True, slots=True)
class PlainSlice(Coded, kind="storage-slice", bytes_max=ANSWER_BYTES_MAX):
    """Records of a partition from an offset on; `end` is where the durable ones end."""

    end: U64
    entries: Annotated[tuple[PlainEntry, ...], at_most(RANGE_BATCHES_MAX)]
