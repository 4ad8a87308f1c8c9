"""What a CometBFT node asks of its application, and what it is answered: ABCI 2.0, as far as we use it.

Messages go over a socket, each behind its length. Only what the application needs is taken out of a
request; what is left out of an answer has its default value (`proto/tendermint/abci/types.proto`, 0.38).
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
    """Say this again."""

    text: bytes


@dataclass(frozen=True, slots=True)
class Flush:
    """Send what is not sent yet."""


@dataclass(frozen=True, slots=True)
class Info:
    """Which block was the application's last?"""


@dataclass(frozen=True, slots=True)
class InitChain:
    """The chain begins: its id, and each validator's Ed25519 key with its power; another key is None."""

    chain_id: str
    validators: tuple[tuple[bytes | None, int], ...]


@dataclass(frozen=True, slots=True)
class Query:
    """Somebody asks through the node."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class CheckTransaction:
    """May this wait for a block, for the first time or still?"""

    transaction: bytes
    again: bool


@dataclass(frozen=True, slots=True)
class Ordered:
    """Transactions of a block of CometBFT, its height, its time, and the address of who proposed it."""

    height: int
    time_ns: int
    proposer: bytes
    transactions: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Misbehaviour:
    """Whose it is, by the validator's address, and the hash of what CometBFT says of it."""

    validator: bytes
    digest: bytes


@dataclass(frozen=True, slots=True)
class Prepare:
    """Which of these make the block that we propose?"""

    candidates: Ordered


@dataclass(frozen=True, slots=True)
class Process:
    """Is this a block to vote for?"""

    proposed: Ordered


@dataclass(frozen=True, slots=True)
class Finalize:
    """This block is decided; the evidence in it convicts validators who contradicted themselves."""

    decided: Ordered
    caught: tuple[Misbehaviour, ...] = ()


@dataclass(frozen=True, slots=True)
class Commit:
    """Keep what the last block did."""


@dataclass(frozen=True, slots=True)
class ListSnapshots:
    """Which snapshots are there?"""


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
    """The request with this encoding; raises DecodeError for one that we never asked to be sent."""
    outer = decode(data)
    if len(outer.blobs) != 1:
        raise DecodeError("a request is one message")
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
            raise DecodeError(f"a request of kind {number}, which this application does not take")


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
    """What was to be said again."""

    text: bytes


@dataclass(frozen=True, slots=True)
class Flushed:
    """All is sent."""


@dataclass(frozen=True, slots=True)
class Informed:
    """The application's last block of CometBFT, and the hash after it."""

    height: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Initialised:
    """The application has begun; the validators stay as they are."""

    hash: bytes


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a query; `problem` says why there is none."""

    value: bytes
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """What is to be expected of a transaction; one with a `problem` is not kept."""

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
    """The hash after a block of so many transactions, all of which took effect."""

    count: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Committed:
    """The block is kept; CometBFT must keep all of its own."""


@dataclass(frozen=True, slots=True)
class NoSnapshots:
    """There are none: whoever begins anew reads the whole chain."""


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
    """The answer as it goes over the socket, its length in front."""
    number, body = _encode_body(response)
    message = encode_message(number, body)
    return encode_varint(len(message)) + message


def encode_exception(text: str) -> bytes:
    """The answer after which the node stops: the application cannot go on."""
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
