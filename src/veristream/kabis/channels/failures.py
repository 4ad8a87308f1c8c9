"""How a request to a storage party or a validator fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.wire.connection import RequestError
from veristream.kabis.wire.handshake import WireError

Value = TypeVar("Value")


class LyingPartyError(Exception):
    """The answer is false: it is malformed, badly signed, or answers another question."""


FAILURES = (TimeoutError, OSError, WireError, RequestError, LyingPartyError)
"""What the methods of `Storage` and `Ordering` raise when an answer is missing, late, refused or false."""


def decode_answer(decode: Callable[[bytes], Value], body: bytes) -> Value:
    """Decodes an answer; raises LyingPartyError if it is malformed."""
    try:
        return decode(body)
    except DecodeError as error:
        raise LyingPartyError(f"malformed answer: {error}") from error
