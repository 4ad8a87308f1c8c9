"""Messages between validators: consensus messages, offers of transactions, requests for blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, get_args

from veristream.kabis.ordering.messages import CONTENT_BYTES_MAX, Message
from veristream.kabis.protocol.blocks import TRANSACTION_BYTES_MAX, EncodedTransaction
from veristream.kabis.protocol.codec import Coded, UnknownKindError, domain_tag
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


_TAG = domain_tag(SentMessage.KIND)
_KINDS = len(get_args(get_args(PeerMessage)[0]))
_CONSENSUS_KINDS = len(get_args(get_args(Message)[0]))
"""The last kind is a consensus message, whose own kind is the next byte."""


def encode_peer_message(message: PeerMessage) -> bytes:
    """Returns the canonical encoding of a message."""
    return SentMessage(message).encode()


def decode_peer_message(data: bytes) -> PeerMessage:
    """Decodes a message; raises only DecodeError, UnknownKindError if a newer version may have sent it."""
    kinds = data[len(_TAG) : len(_TAG) + 2] if data.startswith(_TAG) else b""
    if kinds[:1] >= bytes((_KINDS,)) or kinds >= bytes((_KINDS - 1, _CONSENSUS_KINDS)):
        raise UnknownKindError("unknown kind of message of a validator")
    return SentMessage.decode(data).message
