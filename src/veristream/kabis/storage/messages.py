"""Requests to a storage party and its answers: a byte for the kind, then the body."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Annotated

from veristream.kabis.protocol.answers import ANSWER_BYTES_MAX, RANGE_BATCHES_MAX, Absent, Below
from veristream.kabis.protocol.batch import BATCH_BYTES_MAX, SignedHeader
from veristream.kabis.protocol.blocks import Certificate
from veristream.kabis.protocol.codec import DIGEST_BYTES, Coded, DecodeError, Reader, Writer
from veristream.kabis.protocol.fields import U32, U64, Name, at_most, blob, by, tagged
from veristream.kabis.protocol.partitions import PartitionName, StreamName

EVIDENCE_MAX = 1000


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
class FetchRange(Coded, kind="storage-fetch"):
    """Requests the batches of a stream from a sequence number on."""

    stream: StreamName
    first_sequence: U64
    bytes_max: U32


@dataclass(frozen=True, slots=True)
class FetchPlain(Coded, kind="storage-fetch-plain"):
    """Requests the records of a partition from an offset on; waits up to `wait_ms` for the first."""

    place: PartitionName
    offset: U64
    bytes_max: U32
    wait_ms: U32


@dataclass(frozen=True, slots=True)
class AskAbsence(Coded, kind="storage-ask-absence"):
    """Requests a statement that the party does not have this batch at the certificate's height."""

    signed: SignedHeader
    certificate: Certificate


@dataclass(frozen=True, slots=True)
class CatchUp(Coded, kind="storage-catch-up"):
    """Requests the batches of the party's log from a position on."""

    position: U64
    bytes_max: U32


@dataclass(frozen=True, slots=True)
class Batches(Coded, kind="storage-batches", bytes_max=ANSWER_BYTES_MAX):
    """Batches in the order of the log, and the position to ask for next, or 0 for those of a stream."""

    next_position: U64
    batches: Annotated[tuple[Annotated[bytes, blob(BATCH_BYTES_MAX)], ...], at_most(RANGE_BATCHES_MAX)]


@dataclass(frozen=True, slots=True)
class RaiseLowWater(Coded, kind="storage-low-water"):
    """Releases everything below the mark of a stream, or of a partition that is not validated."""

    name: Annotated[PartitionName | StreamName, tagged("name")]
    low_water: U64


class Standing(Enum):
    """Where a party stands, as far as it has followed the chain."""

    MEMBER = "a storage party"
    COMING = "about to be a storage party"
    FORMER = "no longer a storage party"
    STRANGER = "not yet a storage party"


_STANDINGS = tuple(Standing)


def _write_progress(writer: Writer, progress: tuple[int, Standing]) -> None:
    if progress != _COMPLETE:
        writer.u64(progress[0])
        writer.u8(_STANDINGS.index(progress[1]))


def _read_progress(reader: Reader) -> tuple[int, Standing]:
    """Takes the progress, which a complete member omits, so that its status is that of earlier versions."""
    if not reader.remaining:
        return _COMPLETE
    missing, number = reader.u64(), reader.u8()
    if number >= len(_STANDINGS) or (missing, _STANDINGS[number]) == _COMPLETE:
        raise DecodeError(f"no progress: {missing}, {number}")
    return missing, _STANDINGS[number]


_COMPLETE = (0, Standing.MEMBER)


@dataclass(frozen=True, slots=True)
class Status(Coded, kind="storage-status"):
    """The status of a party: positions in its log, what opening it found, and how far it has joined."""

    start: U64
    end: U64
    durable: U64
    size_bytes: U64
    torn_bytes: U64
    lost_count: U64
    progress: Annotated[tuple[int, Standing], by(_write_progress, _read_progress)] = _COMPLETE

    @property
    def missing(self) -> int:
        """How many batches from before the storage parties changed the party still has to copy."""
        return self.progress[0]

    @property
    def standing(self) -> Standing:
        """Where the party stands."""
        return self.progress[1]


@dataclass(frozen=True, slots=True)
class AskEvidence(Coded, kind="storage-topic"):
    """Requests evidence against the producers of a topic."""

    topic: Name


@dataclass(frozen=True, slots=True)
class Evidence(Coded, kind="storage-evidence", bytes_max=ANSWER_BYTES_MAX):
    """Pairs of contradicting headers; one pair is enough to convict a producer."""

    pairs: Annotated[tuple[tuple[SignedHeader, SignedHeader], ...], at_most(EVIDENCE_MAX)]


def split_request(body: bytes) -> tuple[Operation, bytes]:
    """Splits a request into its kind and body; raises DecodeError."""
    if not body:
        raise DecodeError("empty request")
    try:
        return Operation(body[0]), body[1:]
    except ValueError as error:
        raise DecodeError(f"unknown kind of request: {body[0]}") from error


def decode_digest(data: bytes) -> bytes:
    """Returns the digest in a body; raises DecodeError."""
    if len(data) != DIGEST_BYTES:
        raise DecodeError(f"a digest has {DIGEST_BYTES} bytes, not {len(data)}")
    return data


def found(body: bytes) -> bytes:
    """Returns an answer that holds the requested data."""
    return bytes((Outcome.FOUND,)) + body


def missing(answer: Absent | Below) -> bytes:
    """Returns an answer that says why the data is missing."""
    if isinstance(answer, Absent):
        return bytes((Outcome.ABSENT,))
    return bytes((Outcome.BELOW,)) + answer.low_water.to_bytes(8, "big")


def reply(answer: Coded | Absent | Below) -> bytes:
    """Returns an answer that holds a value, or says why it is missing."""
    return missing(answer) if isinstance(answer, Absent | Below) else found(answer.encode())


def split_answer(data: bytes) -> bytes | Absent | Below:
    """Returns the body of an answer, or why the data is missing; raises DecodeError."""
    if data[:1] == bytes((Outcome.FOUND,)):
        return data[1:]
    if data == bytes((Outcome.ABSENT,)):
        return Absent()
    if data[:1] == bytes((Outcome.BELOW,)) and len(data) == 9:
        return Below(int.from_bytes(data[1:], "big"))
    raise DecodeError("unknown kind of answer")
