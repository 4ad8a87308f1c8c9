"""Encoding of consensus messages that stand alone; between validators they are peer messages."""

from __future__ import annotations

from dataclasses import dataclass

from veristream.kabis.ordering.messages import Message
from veristream.kabis.ordering.peers import MESSAGE_BYTES_MAX
from veristream.kabis.protocol.codec import Coded


@dataclass(frozen=True, slots=True)
class ConsensusMessage(Coded, kind="consensus-message", bytes_max=MESSAGE_BYTES_MAX):
    """A consensus message that stands alone."""

    message: Message


def encode_message(message: Message) -> bytes:
    """Returns the canonical encoding of a message."""
    return ConsensusMessage(message).encode()


def decode_message(data: bytes) -> Message:
    """Decodes a message; raises only DecodeError."""
    return ConsensusMessage.decode(data).message
