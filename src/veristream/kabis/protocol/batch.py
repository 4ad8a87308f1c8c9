"""The envelope: a producer signs a batch of events by its header, which has their Merkle root.

The header names chain, topic, partition, producer, key epoch and sequence, and the header before it of that
producer in that partition, so that it cannot be replayed, spliced or moved. Its size does not depend on the
events: it is what validators order. A batch of one event is the paper's secure identifier.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate, pairwise
from typing import ClassVar, Self

from veristream.kabis.protocol.codec import SIGNATURE_BYTES, Coded, DecodeError, Octets, Reader, Writer
from veristream.kabis.protocol.fields import U32, U64, Digest, Name, Signature
from veristream.kabis.protocol.keys import Signer, Verify
from veristream.kabis.protocol.keys import verify as verify_signature
from veristream.kabis.protocol.merkle import compute_root, hash_leaves
from veristream.kabis.protocol.records import LEAF_BYTES_MAX, Event, decode_leaf

BATCH_EVENTS_MAX = 10_000
BATCH_BYTES_MAX = 8 << 20
"""The largest encoded batch."""
HEAD_BYTES_MAX = 4096 + 4 * BATCH_EVENTS_MAX
"""More than tag, signed header and the table of lengths take."""
BATCH_LEAVES_BYTES_MAX = BATCH_BYTES_MAX - 4096
"""What a batch has for its leaves, each with four bytes for its length."""


class BatchError(Exception):
    """The events of a batch are not those that its header speaks of."""


@dataclass(frozen=True, slots=True)
class BatchHeader(Coded):
    """What a producer says of a batch; `previous` is the digest of its header before, or zeros."""

    KIND: ClassVar[str] = "batch-header"
    BYTES_MAX: ClassVar[int] = 2048

    chain_id: Name
    topic: Name
    partition: U32
    producer: Name
    key_epoch: U32
    first_sequence: U64
    count: U32
    previous: Digest
    root: Digest

    @property
    def next_sequence(self) -> int:
        """The sequence number after this batch's last event."""
        return self.first_sequence + self.count

    def digest(self) -> bytes:
        """What names the header, and with it the batch."""
        return sha256(self.encode()).digest()

    def check(self) -> None:
        """Raises DecodeError unless the count is within the limit and sequence numbers fit 64 bits."""
        if not 1 <= self.count <= BATCH_EVENTS_MAX:
            raise DecodeError(f"a batch of {self.count} events")
        if self.next_sequence >> 64:
            raise DecodeError("sequence numbers past 64 bits")


@dataclass(frozen=True, slots=True)
class SignedHeader(Coded):
    """A header and its producer's signature over the header's encoding, domain tag included."""

    KIND: ClassVar[str] = "signed-header"
    BYTES_MAX: ClassVar[int] = BatchHeader.BYTES_MAX + SIGNATURE_BYTES

    header: BatchHeader
    signature: Signature

    def digest(self) -> bytes:
        """The header's digest; the signature has no part in it."""
        return self.header.digest()

    def verify(self, public: bytes, check: Verify = verify_signature) -> None:
        """Raises SignatureError unless the signature is this key's."""
        check(public, self.header.encode(), self.signature)


@dataclass(frozen=True, slots=True)
class Batch(Coded):
    """A signed header and its events as leaves: what storage parties keep, as the bytes that arrived."""

    KIND: ClassVar[str] = "batch"
    BYTES_MAX: ClassVar[int] = BATCH_BYTES_MAX

    signed: SignedHeader
    leaves: tuple[bytes, ...]

    @property
    def header(self) -> BatchHeader:
        """What the producer says of the batch."""
        return self.signed.header

    def digest(self) -> bytes:
        """The header's digest."""
        return self.signed.digest()

    def verify_contents(self) -> None:
        """Raises BatchError unless the leaves are those under the header's root."""
        _verify_leaves(self.header, self.leaves)

    def events(self) -> list[Event]:
        """The events, decoded; raises DecodeError where a producer signed what is no leaf."""
        return [decode_leaf(leaf) for leaf in self.leaves]

    def write(self, writer: Writer) -> None:
        """Appends the header, a table of the leaves' lengths, then the leaves."""
        self.signed.write(writer)
        writer.raw(struct.pack(f">{len(self.leaves)}I", *map(len, self.leaves)))
        for leaf in self.leaves:
            writer.raw(leaf)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Takes a batch; as many leaves as the header counts."""
        signed = SignedHeader.read(reader)
        lengths = _read_lengths(reader, signed.header.count)
        return cls(signed, tuple([reader.fixed(length) for length in lengths]))

    @classmethod
    def decode(cls, data: Octets) -> Self:
        """The batch with this encoding; raises DecodeError and nothing else."""
        packed = PackedBatch.decode(data)
        return cls(packed.signed, tuple(map(bytes, packed.leaves())))


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """An encoded batch that is only looked at: its leaves stay where they are, in the bytes that came."""

    signed: SignedHeader
    _data: Octets
    _ends: tuple[int, ...]

    @staticmethod
    def decode(data: Octets) -> PackedBatch:
        """The batch with this encoding, as `Batch.decode` has it; raises DecodeError and nothing else."""
        if len(data) > BATCH_BYTES_MAX:
            raise DecodeError(f"{len(data)} bytes, at most {BATCH_BYTES_MAX} for a {Batch.KIND}")
        reader = Reader(bytes(data[:HEAD_BYTES_MAX]), Batch.KIND)
        signed = SignedHeader.read(reader)
        lengths = _read_lengths(reader, signed.header.count)
        start = min(len(data), HEAD_BYTES_MAX) - reader.remaining
        ends = tuple(accumulate(lengths, initial=start))
        if ends[-1] != len(data):
            raise DecodeError(f"leaves of {ends[-1] - start} bytes in {len(data) - start}")
        return PackedBatch(signed, data, ends)

    def leaves(self) -> Iterator[Octets]:
        """The leaves, one after the other."""
        return (self._data[start:end] for start, end in pairwise(self._ends))

    def verify_contents(self) -> None:
        """Raises BatchError unless the leaves are those under the header's root."""
        _verify_leaves(self.signed.header, self.leaves())


def _read_lengths(reader: Reader, count: int) -> tuple[int, ...]:
    lengths: tuple[int, ...] = struct.unpack(f">{count}I", reader.fixed(4 * count))
    if max(lengths) > LEAF_BYTES_MAX:
        raise DecodeError(f"a leaf of {max(lengths)} bytes, at most {LEAF_BYTES_MAX}")
    return lengths


def _verify_leaves(header: BatchHeader, leaves: Iterable[Octets]) -> None:
    if compute_root(hash_leaves(leaves)) != header.root:
        raise BatchError("the events are not those that the header was signed for")


@dataclass(frozen=True, slots=True)
class Stream:
    """Where a producer's batches go: one chain, topic and partition, under one key."""

    chain_id: str
    topic: str
    partition: int
    producer: str
    key_epoch: int


def build_batch(
    stream: Stream, first_sequence: int, previous: bytes, leaves: Sequence[bytes], signer: Signer
) -> Batch:
    """The signed batch of these leaves; `previous` is the digest of the batch before, or zeros."""
    if not 1 <= len(leaves) <= BATCH_EVENTS_MAX:
        raise ValueError(f"a batch of {len(leaves)} events, between 1 and {BATCH_EVENTS_MAX}")
    size = sum(map(len, leaves)) + 4 * len(leaves)
    if size > BATCH_LEAVES_BYTES_MAX:
        raise ValueError(f"the leaves of a batch take {size} bytes, at most {BATCH_LEAVES_BYTES_MAX}")
    header = BatchHeader(
        stream.chain_id,
        stream.topic,
        stream.partition,
        stream.producer,
        stream.key_epoch,
        first_sequence,
        len(leaves),
        previous,
        compute_root(hash_leaves(leaves)),
    )
    return Batch(SignedHeader(header, signer.sign(header.encode())), tuple(leaves))
