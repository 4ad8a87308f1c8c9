"""Requests to a validator and its answers: a byte for the kind, then the body."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, assert_never

from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.succession import Handovers
from veristream.kabis.protocol.blocks import BLOCK_BYTES_MAX
from veristream.kabis.protocol.codec import Coded, DecodeError, Reader, Writer
from veristream.kabis.protocol.fields import U32, U64, Digest, Name, at_most, blob, text
from veristream.kabis.protocol.outcomes import Admitted, Already, Done, Outcome, Reason, Refused
from veristream.kabis.protocol.receipts import PARTIES_MAX

BLOCKS_PER_ANSWER_MAX = 1000
CERTIFIED_BYTES_MAX = BLOCK_BYTES_MAX + PARTIES_MAX * 128
ACCUSATIONS_MAX = 10_000
DETAIL_BYTES_MAX = 1000


class Operation(IntEnum):
    """The kinds of requests."""

    SUBMIT = 1
    READ = 2
    STATUS = 3
    EVIDENCE = 4
    MANIFEST = 5
    CHUNK = 6
    HANDOVERS = 7


def split_request(body: bytes) -> tuple[Operation, bytes]:
    """Splits a request into its kind and body; raises DecodeError."""
    if not body or body[0] not in Operation.__members__.values():
        raise DecodeError("unknown kind of request")
    return Operation(body[0]), body[1:]


@dataclass(frozen=True, slots=True)
class Read(Coded, kind="ordering-read", bytes_max=256):
    """Requests decided blocks of these heights; waits up to `wait_ms` for the first."""

    first: U64
    last: U64
    bytes_max: U32
    wait_ms: U32


@dataclass(frozen=True, slots=True)
class ReadChunk(Coded, kind="ordering-read-chunk", bytes_max=256):
    """Requests a chunk of the snapshot after the block of this height."""

    height: U64
    number: U32


@dataclass(frozen=True, slots=True)
class Blocks(Coded, kind="ordering-blocks", bytes_max=16 << 20):
    """Encoded certified blocks of consecutive heights, and the validator's height."""

    height: U64
    blocks: Annotated[
        tuple[Annotated[bytes, blob(CERTIFIED_BYTES_MAX)], ...], at_most(BLOCKS_PER_ANSWER_MAX)
    ]


@dataclass(frozen=True, slots=True)
class Handed(Coded, kind="ordering-handovers", bytes_max=8 << 20):
    """All changes of the members, each proved by the members before it."""

    handovers: Handovers = ()


@dataclass(frozen=True, slots=True)
class Status(Coded, kind="ordering-status", bytes_max=512):
    """A validator's report on itself: its last block, the state after it, and its current work."""

    height: U64
    block_id: Digest
    state: Digest
    time_ms: U64
    round: U64
    waiting: U64
    peers: U64
    accusations: U64
    size_bytes: U64


@dataclass(frozen=True, slots=True)
class Accused(Coded, kind="ordering-accused"):
    """A faulty party; the block at `height` holds the evidence with this digest."""

    role: Name
    name: Annotated[str, text(300)]
    height: U64
    digest: Digest


@dataclass(frozen=True, slots=True)
class Evidence(Coded, kind="ordering-evidence"):
    """All accused on the ledger, and the number of contradictions that this validator saw itself."""

    accused: Annotated[tuple[Accused, ...], at_most(ACCUSATIONS_MAX)]
    seen: U64


def list_accused(ledger: Ledger) -> tuple[Accused, ...]:
    """Returns all accused on a ledger."""
    accused = [
        Accused(role, name, accusation.height, accusation.transaction)
        for (role, name), accusation in ledger.accusations().items()
    ]
    return tuple(accused[:ACCUSATIONS_MAX])


def encode_outcome(outcome: Outcome) -> bytes:
    """Encodes the outcome that a validator expects of a transaction."""
    writer = Writer("outcome")
    match outcome:
        case Admitted(first_index, count):
            writer.u8(0)
            writer.u64(first_index)
            writer.u32(count)
        case Done():
            writer.u8(1)
        case Already():
            writer.u8(2)
        case Refused(reason, detail):
            writer.u8(3)
            writer.text(reason.name)
            writer.blob(detail.encode("utf-8")[:DETAIL_BYTES_MAX], DETAIL_BYTES_MAX)
        case _:
            assert_never(outcome)
    return writer.to_bytes()


def decode_outcome(data: bytes) -> Outcome:
    """Returns the outcome with this encoding; raises DecodeError and nothing else."""
    reader = Reader(data, "outcome")
    outcome = _read_outcome(reader)
    reader.end()
    return outcome


def _read_outcome(reader: Reader) -> Outcome:
    match reader.u8():
        case 0:
            return Admitted(reader.u64(), reader.u32())
        case 1:
            return Done()
        case 2:
            return Already()
        case 3:
            name, detail = reader.text(), reader.blob(DETAIL_BYTES_MAX).decode("utf-8", "replace")
            if name not in Reason.__members__:
                raise DecodeError(f"unknown reason {name!r}")
            return Refused(Reason[name], detail)
        case kind:
            raise DecodeError(f"unknown kind of outcome: {kind}")
