"""The envelope: a producer signs a batch of events through its header, which holds their Merkle root.

The header names chain, topic, partition, producer, key epoch, sequence number, and the producer's previous
header in that partition, so that a batch cannot be replayed, spliced or moved. Validators order headers,
whose size does not depend on the events. A batch of one event is the paper's secure identifier.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate, pairwise
from typing import Self

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
"""An upper bound for the tag, the signed header and the table of lengths."""
BATCH_LEAVES_BYTES_MAX = BATCH_BYTES_MAX - 4096
"""The room for leaves in a batch, including four bytes for the length of each."""


class BatchError(Exception):
    """The events of a batch do not match its header."""


@dataclass(frozen=True, slots=True)
class BatchHeader(Coded, kind="batch-header", bytes_max=2048):
    """What a producer signs; `previous` is the digest of its previous header, or zeros."""

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
        """The digest that identifies the header and its batch."""
        return sha256(self.encode()).digest()

    def check(self) -> None:
        """Raises DecodeError if the count or the sequence numbers are out of range."""
        if not 1 <= self.count <= BATCH_EVENTS_MAX:
            raise DecodeError(f"a batch of {self.count} events, must be between 1 and {BATCH_EVENTS_MAX}")
        if self.next_sequence >> 64:
            raise DecodeError("sequence numbers exceed 64 bits")


@dataclass(frozen=True, slots=True)
class SignedHeader(Coded, kind="signed-header", bytes_max=BatchHeader.BYTES_MAX + SIGNATURE_BYTES):
    """A header and its producer's signature over the header's encoding, domain tag included."""

    header: BatchHeader
    signature: Signature

    def digest(self) -> bytes:
        """The header's digest, which does not cover the signature."""
        return self.header.digest()

    def verify(self, public: bytes, check: Verify = verify_signature) -> None:
        """Raises SignatureError unless the signature is this key's."""
        check(public, self.header.encode(), self.signature)


@dataclass(frozen=True, slots=True)
class Batch(Coded, kind="batch", bytes_max=BATCH_BYTES_MAX):
    """A signed header and its events as leaves. Storage parties keep the bytes as they arrived.

    It is encoded by hand: lengths are packed and unpacked in one call, since a batch may hold thousands of
    leaves.
    """

    signed: SignedHeader
    leaves: tuple[bytes, ...]

    @property
    def header(self) -> BatchHeader:
        """The header that the producer signed."""
        return self.signed.header

    def digest(self) -> bytes:
        """The header's digest."""
        return self.signed.digest()

    def verify_contents(self) -> None:
        """Raises BatchError unless the leaves hash to the header's root."""
        _verify_leaves(self.header, self.leaves)

    def events(self) -> list[Event]:
        """Decodes the events; raises DecodeError if the producer signed an invalid leaf."""
        return [decode_leaf(leaf) for leaf in self.leaves]

    def write(self, writer: Writer) -> None:
        """Appends the header, a table of the leaves' lengths, then the leaves."""
        self.signed.write(writer)
        writer.raw(struct.pack(f">{len(self.leaves)}I", *map(len, self.leaves)))
        for leaf in self.leaves:
            writer.raw(leaf)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Takes a batch with as many leaves as the header counts."""
        signed = SignedHeader.read(reader)
        lengths = _read_lengths(reader, signed.header.count)
        return cls(signed, tuple([reader.fixed(length) for length in lengths]))

    @classmethod
    def decode(cls, data: Octets) -> Self:
        """Returns the batch with this encoding; raises DecodeError and nothing else."""
        packed = PackedBatch.decode(data)
        return cls(packed.signed, tuple(map(bytes, packed.leaves())))


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """A view of an encoded batch: its leaves stay in the received bytes."""

    signed: SignedHeader
    _data: Octets
    _ends: tuple[int, ...]

    @staticmethod
    def decode(data: Octets) -> PackedBatch:
        """Returns a view of this encoding; accepts and rejects the same bytes as `Batch.decode`."""
        if len(data) > BATCH_BYTES_MAX:
            raise DecodeError(f"{len(data)} bytes, at most {BATCH_BYTES_MAX} for a {Batch.KIND}")
        reader = Reader(bytes(data[:HEAD_BYTES_MAX]), Batch.KIND)
        signed = SignedHeader.read(reader)
        lengths = _read_lengths(reader, signed.header.count)
        start = min(len(data), HEAD_BYTES_MAX) - reader.remaining
        ends = tuple(accumulate(lengths, initial=start))
        if ends[-1] != len(data):
            raise DecodeError(f"the leaves take {ends[-1] - start} bytes, but {len(data) - start} are left")
        return PackedBatch(signed, data, ends)

    def leaves(self) -> Iterator[Octets]:
        """Iterates over the leaves."""
        return (self._data[start:end] for start, end in pairwise(self._ends))

    def verify_contents(self) -> None:
        """Raises BatchError unless the leaves hash to the header's root."""
        _verify_leaves(self.signed.header, self.leaves())


def _read_lengths(reader: Reader, count: int) -> tuple[int, ...]:
    lengths: tuple[int, ...] = struct.unpack(f">{count}I", reader.fixed(4 * count))
    if max(lengths) > LEAF_BYTES_MAX:
        raise DecodeError(f"a leaf of {max(lengths)} bytes, at most {LEAF_BYTES_MAX}")
    return lengths


def _verify_leaves(header: BatchHeader, leaves: Iterable[Octets]) -> None:
    if compute_root(hash_leaves(leaves)) != header.root:
        raise BatchError("the events do not match the root in the signed header")


@dataclass(frozen=True, slots=True)
class Stream:
    """The destination of a producer's batches: one chain, topic and partition, under one key."""

    chain_id: str
    topic: str
    partition: int
    producer: str
    key_epoch: int


def build_batch(
    stream: Stream, first_sequence: int, previous: bytes, leaves: Sequence[bytes], signer: Signer
) -> Batch:
    """Signs a batch of these leaves; `previous` is the digest of the previous batch, or zeros."""
    if not 1 <= len(leaves) <= BATCH_EVENTS_MAX:
        raise ValueError(f"a batch of {len(leaves)} events, must be between 1 and {BATCH_EVENTS_MAX}")
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
