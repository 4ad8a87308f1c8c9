"""All that validators send each other: consensus messages, offers of transactions, questions for blocks."""

from __future__ import annotations

from dataclasses import dataclass

from veristream.kabis.ordering.encoding import MESSAGE_BYTES_MAX, read_message, write_message
from veristream.kabis.ordering.messages import Message
from veristream.kabis.protocol.blocks import TRANSACTION_BYTES_MAX
from veristream.kabis.protocol.codec import DecodeError, Reader, Writer

TRANSACTIONS_PER_OFFER_MAX = 64
PEER_MESSAGE_BYTES_MAX = (
    max(MESSAGE_BYTES_MAX, TRANSACTIONS_PER_OFFER_MAX * (TRANSACTION_BYTES_MAX + 4)) + 64
)

_KIND = "peer-message"


@dataclass(frozen=True, slots=True)
class Offer:
    """Transactions that a client gave to the sender, or that it made of evidence."""

    transactions: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """The sender wants decided blocks from this height on."""

    height: int


PeerMessage = Message | Offer | Ask


def encode_peer_message(message: PeerMessage) -> bytes:
    """The only encoding of a message."""
    writer = Writer(_KIND)
    match message:
        case Offer():
            writer.u8(0)
            writer.items(
                message.transactions,
                TRANSACTIONS_PER_OFFER_MAX,
                lambda encoded: writer.blob(encoded, TRANSACTION_BYTES_MAX),
            )
        case Ask():
            writer.u8(1)
            writer.u64(message.height)
        case _:
            writer.u8(2)
            write_message(writer, message)
    return writer.to_bytes()


def decode_peer_message(data: bytes) -> PeerMessage:
    """The message with this encoding; raises DecodeError and nothing else."""
    if len(data) > PEER_MESSAGE_BYTES_MAX:
        raise DecodeError(
            f"{len(data)} bytes, at most {PEER_MESSAGE_BYTES_MAX} for a message of a validator"
        )
    reader = Reader(data, _KIND)
    message = _read_peer_message(reader)
    reader.end()
    return message


def _read_peer_message(reader: Reader) -> PeerMessage:
    match reader.u8():
        case 0:
            return Offer(
                reader.items(TRANSACTIONS_PER_OFFER_MAX, lambda: reader.blob(TRANSACTION_BYTES_MAX))
            )
        case 1:
            return Ask(reader.u64())
        case 2:
            return read_message(reader)
        case kind:
            raise DecodeError(f"a message of a validator of kind {kind}")
