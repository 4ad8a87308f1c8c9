"""Messages between validators: consensus messages, offers of transactions, requests for blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from veristream.kabis.ordering.messages import CONTENT_BYTES_MAX, Message
from veristream.kabis.protocol.blocks import TRANSACTION_BYTES_MAX, EncodedTransaction
from veristream.kabis.protocol.codec import Coded
from veristream.kabis.protocol.fields import U64, at_most, tagged
from veristream.kabis.protocol.receipts import PARTIES_MAX

MESSAGE_BYTES_MAX = CONTENT_BYTES_MAX + PARTIES_MAX * 128
"""The longest consensus message."""
TRANSACTIONS_PER_OFFER_MAX = 64
PEER_MESSAGE_BYTES_MAX = (
    max(MESSAGE_BYTES_MAX, TRANSACTIONS_PER_OFFER_MAX * (TRANSACTION_BYTES_MAX + 4)) + 64
)


@dataclass(frozen=True, slots=True)
class Offer:
    """Transactions that a client submitted to the sender, or that it built from evidence."""

    transactions: Annotated[tuple[EncodedTransaction, ...], at_most(TRANSACTIONS_PER_OFFER_MAX)]


@dataclass(frozen=True, slots=True)
class Ask:
    """The sender requests decided blocks from this height on."""

    height: U64


PeerMessage = Annotated[Offer | Ask | Message, tagged("message of a validator")]


@dataclass(frozen=True, slots=True)
class SentMessage(Coded, kind="peer-message", bytes_max=PEER_MESSAGE_BYTES_MAX):
    """A message as it is sent."""

    message: PeerMessage


def encode_peer_message(message: PeerMessage) -> bytes:
    """Returns the canonical encoding of a message."""
    return SentMessage(message).encode()


def decode_peer_message(data: bytes) -> PeerMessage:
    """Decodes a message; raises only DecodeError."""
    return SentMessage.decode(data).message
