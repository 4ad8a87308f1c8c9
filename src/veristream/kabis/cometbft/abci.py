"""The part of ABCI 2.0 that we use: requests of a CometBFT node to its application, and the responses.

Messages go over a socket, each preceded by its length. Only fields that the application needs are decoded;
omitted fields of a response have default values (`proto/tendermint/abci/types.proto`, 0.38).
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import assert_never

from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.protobuf import (
    Message,
    decode,
    encode_bytes,
    encode_integer,
    encode_message,
    encode_varint,
)


@dataclass(frozen=True, slots=True)
class Echo:
    text: bytes


@dataclass(frozen=True, slots=True)
class Flush:
    """Send all pending responses."""


@dataclass(frozen=True, slots=True)
class Info:
    """Asks for the application's last block."""


@dataclass(frozen=True, slots=True)
class InitChain:
    """Start of the chain: its id, and each validator's Ed25519 key (None for another type) and power."""

    chain_id: str
    validators: tuple[tuple[bytes | None, int], ...]


@dataclass(frozen=True, slots=True)
class Query:
    """A client's query, forwarded by the node."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class CheckTransaction:
    """Asks whether a transaction may enter the mempool, or stay in it."""

    transaction: bytes
    again: bool


@dataclass(frozen=True, slots=True)
class Ordered:
    """Transactions of a CometBFT block, its height and time, and the address of its proposer."""

    height: int
    time_ns: int
    proposer: bytes
    transactions: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Misbehaviour:
    """Address of a misbehaving validator, and the hash of CometBFT's evidence."""

    validator: bytes
    digest: bytes


@dataclass(frozen=True, slots=True)
class Prepare:
    """Asks for the transactions of our proposal."""

    candidates: Ordered


@dataclass(frozen=True, slots=True)
class Process:
    """Asks whether to vote for a block."""

    proposed: Ordered


@dataclass(frozen=True, slots=True)
class Finalize:
    """A decided block; its evidence convicts validators that contradicted themselves."""

    decided: Ordered
    caught: tuple[Misbehaviour, ...] = ()


@dataclass(frozen=True, slots=True)
class Commit:
    """Asks to persist the last block's effects."""


@dataclass(frozen=True, slots=True)
class ListSnapshots:
    """Asks for the application's snapshots."""


Request = (
    Echo
    | Flush
    | Info
    | InitChain
    | Query
    | CheckTransaction
    | Prepare
    | Process
    | Finalize
    | Commit
    | ListSnapshots
)


def decode_request(data: bytes) -> Request:
    """Decodes a request; raises DecodeError if this application does not support it."""
    outer = decode(data)
    if len(outer.blobs) != 1:
        raise DecodeError("a request must be a single message")
    number = next(iter(outer.blobs))
    body = outer.message(number)
    match number:
        case 1:
            return Echo(body.blob(1))
        case 2:
            return Flush()
        case 3:
            return Info()
        case 5:
            return InitChain(body.text(2), tuple(_read_validator(each) for each in body.each(4)))
        case 6:
            return Query(body.text(2), body.blob(1))
        case 8:
            return CheckTransaction(body.blob(1), again=body.integer(2) == 1)
        case 11:
            return Commit()
        case 12:
            return ListSnapshots()
        case 16:
            return Prepare(_read_ordered(body, 2))
        case 17:
            return Process(_read_ordered(body, 1))
        case 20:
            return Finalize(
                _read_ordered(body, 1), tuple(_read_misbehaviour(each) for each in body.each(3))
            )
        case _:
            raise DecodeError(f"unsupported request {number}")


def _read_validator(data: bytes) -> tuple[bytes | None, int]:
    update = decode(data)
    return update.message(1).blob(1) or None, update.integer(2)


def _read_misbehaviour(data: bytes) -> Misbehaviour:
    return Misbehaviour(decode(data).message(2).blob(1), sha256(data).digest())


def _read_ordered(body: Message, transactions: int) -> Ordered:
    time = body.message(6)
    time_ns = time.integer(1) * 1_000_000_000 + time.integer(2)
    return Ordered(body.integer(5), time_ns, body.blob(8), body.each(transactions))


@dataclass(frozen=True, slots=True)
class Echoed:
    text: bytes


@dataclass(frozen=True, slots=True)
class Flushed:
    """All pending responses were sent."""


@dataclass(frozen=True, slots=True)
class Informed:
    """The application's last CometBFT block, and the hash after it."""

    height: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Initialised:
    """The application has started; the validators do not change."""

    hash: bytes


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a query, or the `problem`."""

    value: bytes
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """The expected outcome of a transaction; with a `problem` it is not kept."""

    outcome: bytes
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The transactions of a proposal."""

    transactions: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Processed:
    """Whether to vote for a proposal."""

    good: bool


@dataclass(frozen=True, slots=True)
class Finalized:
    """The hash after a block of `count` transactions, all of which took effect."""

    count: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Committed:
    """Persistence is done; CometBFT must retain all of its blocks."""


@dataclass(frozen=True, slots=True)
class NoSnapshots:
    """No snapshots: a new node reads the whole chain."""


Response = (
    Echoed
    | Flushed
    | Informed
    | Initialised
    | Answered
    | Checked
    | Prepared
    | Processed
    | Finalized
    | Committed
    | NoSnapshots
)


def encode_response(response: Response) -> bytes:
    """Encodes a response, preceded by its length."""
    number, body = _encode_body(response)
    message = encode_message(number, body)
    return encode_varint(len(message)) + message


def encode_exception(text: str) -> bytes:
    """Encodes the response that stops the node, because the application cannot continue."""
    message = encode_message(1, encode_bytes(1, text.encode("utf-8")))
    return encode_varint(len(message)) + message


def _encode_body(response: Response) -> tuple[int, bytes]:
    match response:
        case Echoed(text):
            return 2, encode_bytes(1, text)
        case Flushed():
            return 3, b""
        case Informed(height, hash_):
            return 4, encode_bytes(1, b"kabis") + encode_integer(4, height) + encode_bytes(5, hash_)
        case Initialised(hash_):
            return 6, encode_bytes(3, hash_)
        case Answered(value, problem):
            return 7, _encode_problem(problem) + encode_bytes(7, value)
        case Checked(outcome, problem):
            code = encode_integer(1, 1 if problem else 0)
            return 9, code + encode_bytes(2, outcome) + encode_bytes(3, problem.encode("utf-8"))
        case Committed():
            return 12, b""
        case NoSnapshots():
            return 13, b""
        case Prepared(transactions):
            return 17, b"".join(encode_message(1, each) for each in transactions)
        case Processed(good):
            return 18, encode_integer(1, 1 if good else 2)
        case Finalized(count, hash_):
            return 21, encode_message(2, b"") * count + encode_bytes(5, hash_)
        case _:
            assert_never(response)


def _encode_problem(problem: str) -> bytes:
    return encode_integer(1, 1 if problem else 0) + encode_bytes(3, problem.encode("utf-8"))
