"""How a request to a storage party or a validator fails."""

from __future__ import annotations

from veristream.kabis.wire.connection import RequestError
from veristream.kabis.wire.handshake import WireError


class LyingPartyError(Exception):
    """The answer is false: it is malformed, badly signed, or answers another question."""


FAILURES = (TimeoutError, OSError, WireError, RequestError, LyingPartyError)
"""What the methods of `Storage` and `Ordering` raise when an answer is missing, late, refused or false."""
