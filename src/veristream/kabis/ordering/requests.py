"""What clients ask of a validator, and what it answers: a byte that says what, then the body."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, ClassVar, assert_never

from veristream.kabis.ledger.ledger import Ledger
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
    """What is asked."""

    SUBMIT = 1
    READ = 2
    STATUS = 3
    EVIDENCE = 4


def split_request(body: bytes) -> tuple[Operation, bytes]:
    """What is asked, and the rest; raises DecodeError."""
    if not body or body[0] not in Operation.__members__.values():
        raise DecodeError("a request that validators do not know")
    return Operation(body[0]), body[1:]


@dataclass(frozen=True, slots=True)
class Read(Coded):
    """Decided blocks of these heights; `wait_ms` is how long to wait for the first of them."""

    KIND: ClassVar[str] = "ordering-read"
    BYTES_MAX: ClassVar[int] = 256

    first: U64
    last: U64
    bytes_max: U32
    wait_ms: U32


@dataclass(frozen=True, slots=True)
class Blocks(Coded):
    """Encoded certified blocks, one height after the other, and how far the validator is."""

    KIND: ClassVar[str] = "ordering-blocks"
    BYTES_MAX: ClassVar[int] = 16 << 20

    height: U64
    blocks: Annotated[
        tuple[Annotated[bytes, blob(CERTIFIED_BYTES_MAX)], ...], at_most(BLOCKS_PER_ANSWER_MAX)
    ]


@dataclass(frozen=True, slots=True)
class Status(Coded):
    """How a validator says it is: its last block and the state after it, and what it is at."""

    KIND: ClassVar[str] = "ordering-status"
    BYTES_MAX: ClassVar[int] = 512

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
class Accused(Coded):
    """Who was caught; `height` is the block where the evidence with this digest stands."""

    KIND: ClassVar[str] = "ordering-accused"

    role: Name
    name: Annotated[str, text(300)]
    height: U64
    digest: Digest


@dataclass(frozen=True, slots=True)
class Evidence(Coded):
    """All who were caught on the ledger, and how many contradictions this validator saw by itself."""

    KIND: ClassVar[str] = "ordering-evidence"

    accused: Annotated[tuple[Accused, ...], at_most(ACCUSATIONS_MAX)]
    seen: U64


def list_accused(ledger: Ledger) -> tuple[Accused, ...]:
    """All who were caught on a ledger."""
    accused = [
        Accused(role, name, accusation.height, accusation.transaction)
        for (role, name), accusation in ledger.accusations().items()
    ]
    return tuple(accused[:ACCUSATIONS_MAX])


def encode_outcome(outcome: Outcome) -> bytes:
    """What a validator expects to become of a transaction, as bytes."""
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
    """The outcome with this encoding; raises DecodeError and nothing else."""
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
                raise DecodeError(f"a reason {name!r} that is unknown")
            return Refused(Reason[name], detail)
        case kind:
            raise DecodeError(f"an outcome of kind {kind}")
