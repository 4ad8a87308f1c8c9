"""Requests to a storage party and its answers: a byte for the kind, then the body."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, ClassVar

from veristream.kabis.protocol.answers import Absent, Below
from veristream.kabis.protocol.batch import BATCH_BYTES_MAX, SignedHeader
from veristream.kabis.protocol.certificates import Certificate
from veristream.kabis.protocol.codec import DIGEST_BYTES, Coded, DecodeError, Reader, Writer
from veristream.kabis.protocol.fields import U32, U64, tagged
from veristream.kabis.protocol.partitions import PartitionName, StreamName
from veristream.kabis.protocol.plain import PlainEntry, PlainSlice
from veristream.kabis.storage.core import RANGE_BATCHES_MAX, CaughtUp

EVIDENCE_MAX = 1000
ANSWER_BYTES_MAX = 12 << 20


class Operation(IntEnum):
    """The kinds of requests."""

    STORE = 1
    FETCH = 2
    FETCH_DIGEST = 3
    APPEND_PLAIN = 4
    FETCH_PLAIN = 5
    ABSENCE = 6
    CATCH_UP = 7
    EVIDENCE = 8
    STATUS = 9
    LOW_WATER = 10


class Outcome(IntEnum):
    """The first byte of an answer."""

    FOUND = 0
    ABSENT = 1
    BELOW = 2


@dataclass(frozen=True, slots=True)
class FetchRange(Coded):
    """Requests the batches of a stream from a sequence number on."""

    KIND: ClassVar[str] = "storage-fetch"

    stream: StreamName
    first_sequence: U64
    bytes_max: U32


@dataclass(frozen=True, slots=True)
class FetchPlain(Coded):
    """Requests the records of a partition from an offset on; waits up to `wait_ms` for the first."""

    KIND: ClassVar[str] = "storage-fetch-plain"

    place: PartitionName
    offset: U64
    bytes_max: U32
    wait_ms: U32


@dataclass(frozen=True, slots=True)
class AskAbsence(Coded):
    """Requests a statement that the party does not have this batch at the certificate's height."""

    KIND: ClassVar[str] = "storage-ask-absence"

    signed: SignedHeader
    certificate: Certificate


@dataclass(frozen=True, slots=True)
class CatchUp(Coded):
    """Requests the batches of the party's log from a position on."""

    KIND: ClassVar[str] = "storage-catch-up"

    position: U64
    bytes_max: U32


@dataclass(frozen=True, slots=True)
class RaiseLowWater(Coded):
    """Releases everything below the mark of a stream, or of a partition that is not validated."""

    KIND: ClassVar[str] = "storage-low-water"

    name: Annotated[PartitionName | StreamName, tagged("name")]
    low_water: U64


@dataclass(frozen=True, slots=True)
class Status(Coded):
    """The status of a party: positions in its log, and what it found when it opened the log."""

    KIND: ClassVar[str] = "storage-status"

    start: U64
    end: U64
    durable: U64
    size_bytes: U64
    torn_bytes: U64
    lost_count: U64


def split_request(body: bytes) -> tuple[Operation, bytes]:
    """Splits a request into its kind and body; raises DecodeError."""
    if not body:
        raise DecodeError("an empty request")
    try:
        return Operation(body[0]), body[1:]
    except ValueError as error:
        raise DecodeError(f"a request of kind {body[0]}") from error


def decode_digest(data: bytes) -> bytes:
    """Returns the digest in a body; raises DecodeError."""
    if len(data) != DIGEST_BYTES:
        raise DecodeError(f"a digest of {len(data)} bytes")
    return data


def decode_topic(data: bytes) -> str:
    """Returns the topic in a body; raises DecodeError."""
    reader = Reader(data, "storage-topic")
    topic = reader.text()
    reader.end()
    return topic


def encode_topic(topic: str) -> bytes:
    """Returns a body that holds a topic."""
    writer = Writer("storage-topic")
    writer.text(topic)
    return writer.to_bytes()


def found(body: bytes) -> bytes:
    """Returns an answer that holds the requested data."""
    return bytes((Outcome.FOUND,)) + body


def missing(answer: Absent | Below) -> bytes:
    """Returns an answer that says why the data is missing."""
    if isinstance(answer, Absent):
        return bytes((Outcome.ABSENT,))
    return bytes((Outcome.BELOW,)) + answer.low_water.to_bytes(8, "big")


def split_answer(data: bytes) -> bytes | Absent | Below:
    """Returns the body of an answer, or why the data is missing; raises DecodeError."""
    if data[:1] == bytes((Outcome.FOUND,)):
        return data[1:]
    if data == bytes((Outcome.ABSENT,)):
        return Absent()
    if data[:1] == bytes((Outcome.BELOW,)) and len(data) == 9:
        return Below(int.from_bytes(data[1:], "big"))
    raise DecodeError("an answer of no known kind")


def encode_batches(batches: tuple[bytes, ...], next_position: int = 0) -> bytes:
    """Encodes batches and, for catching up, the next position to request."""
    writer = Writer("storage-batches")
    writer.u64(next_position)
    writer.items(batches, RANGE_BATCHES_MAX, lambda batch: writer.blob(batch, BATCH_BYTES_MAX))
    return writer.to_bytes()


def decode_batches(data: bytes) -> CaughtUp:
    """Decodes what `encode_batches` wrote, but not the batches themselves."""
    reader = _reader(data, "storage-batches")
    next_position = reader.u64()
    batches = reader.items(RANGE_BATCHES_MAX, lambda: reader.blob(BATCH_BYTES_MAX))
    reader.end()
    return CaughtUp(batches, next_position)


def encode_slice(part: PlainSlice) -> bytes:
    """Encodes records of a partition."""
    writer = Writer("storage-slice")
    writer.u64(part.end)
    writer.items(part.entries, RANGE_BATCHES_MAX, lambda entry: entry.write(writer))
    return writer.to_bytes()


def decode_slice(data: bytes) -> PlainSlice:
    """Decodes what `encode_slice` wrote."""
    reader = _reader(data, "storage-slice")
    end = reader.u64()
    entries = reader.items(RANGE_BATCHES_MAX, lambda: PlainEntry.read(reader))
    reader.end()
    return PlainSlice(entries, end)


def encode_evidence(pairs: list[tuple[SignedHeader, SignedHeader]]) -> bytes:
    """Encodes at most `EVIDENCE_MAX` pairs of contradicting headers; one pair is enough."""
    writer = Writer("storage-evidence")

    def write_pair(pair: tuple[SignedHeader, SignedHeader]) -> None:
        for header in pair:
            header.write(writer)

    writer.items(pairs[:EVIDENCE_MAX], EVIDENCE_MAX, write_pair)
    return writer.to_bytes()


def decode_evidence(data: bytes) -> tuple[tuple[SignedHeader, SignedHeader], ...]:
    """Decodes what `encode_evidence` wrote."""
    reader = _reader(data, "storage-evidence")

    def read_header() -> SignedHeader:
        return SignedHeader.read(reader)

    pairs = reader.items(EVIDENCE_MAX, lambda: (read_header(), read_header()))
    reader.end()
    return pairs


def _reader(data: bytes, kind: str) -> Reader:
    if len(data) > ANSWER_BYTES_MAX:
        raise DecodeError(f"{len(data)} bytes, at most {ANSWER_BYTES_MAX}")
    return Reader(data, kind)


DECODERS: tuple[Callable[[bytes], object], ...] = (
    FetchRange.decode,
    FetchPlain.decode,
    AskAbsence.decode,
    CatchUp.decode,
    RaiseLowWater.decode,
    Status.decode,
    split_request,
    decode_digest,
    decode_topic,
    split_answer,
    decode_batches,
    decode_slice,
    decode_evidence,
)
"""Everything in this module that decodes bytes from outside."""
