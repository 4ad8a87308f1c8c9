"""What a connection is made with: handlers of requests, limits, and the errors that it raises."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from veristream.kabis.protocol.codec import Octets
from veristream.kabis.wire.handshake import Peer, WireError
from veristream.kabis.wire.quotas import Quotas


class ConnectionLostError(WireError):
    """The connection ended; it is unknown whether the other side received the request."""


class PeerRefusedError(WireError):
    """The other side knows our identity and refuses the connection."""


class RequestError(Exception):
    """The other side answered that it will not or cannot do what was asked, and why."""


@dataclass(frozen=True, slots=True)
class Attached:
    """A body, and attached contents that only a hash in the body, or a signature, authenticates."""

    body: bytes
    contents: Octets


@dataclass(frozen=True, slots=True)
class Later:
    """An answer that is made when the peer has read enough of the earlier ones.

    A handler that waits for news returns this. Otherwise all that wait for the same news would make their
    answers at once, and all of them would be in memory.
    """

    make: Callable[[], bytes | Attached]


Answer = Callable[[Peer, bytes], Awaitable[bytes | Attached | Later]]
AnswerAttached = Callable[[Peer, Attached], Awaitable[bytes | Attached | Later]]
Receive = Callable[[Peer, bytes], None]
Authorize = Callable[[Peer], str | None]
"""Returns why a peer that has proved its key is refused, or None if it is admitted."""


Note = Callable[[Peer, str], None]
"""Notes that a peer hit a limit, for who asks a party whom it refused; see `refusals`."""


def note_nothing(_peer: Peer, _limit: str) -> None:
    """Notes nothing."""


async def _answer_nothing(_peer: Peer, _body: bytes) -> bytes:
    raise RequestError("nothing is answered here")


async def _take_nothing(_peer: Peer, _request: Attached) -> bytes:
    raise RequestError("nothing may be attached to this")


def _receive_nothing(_peer: Peer, _body: bytes) -> None:
    """Drops messages that nobody waits for."""


@dataclass(frozen=True, slots=True)
class Handlers:
    """Handles requests and messages; `answer` may raise RequestError or DecodeError."""

    answer: Answer = _answer_nothing
    receive: Receive = _receive_nothing
    answer_attached: AnswerAttached = _take_nothing


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits for a peer: sizes, counts and times; a server's `quotas` are for all of them together.

    A client of a server sends frames of at most `client_frame_bytes_max`.
    """

    frame_bytes_max: int = 16 << 20
    client_frame_bytes_max: int = 16 << 20
    requests_max: int = 256
    request_bytes_max: int = 32 << 20
    write_bytes_max: int = 1 << 20
    handshake_s: float = 5.0
    stall_s: float = 30.0
    idle_s: float = 60.0
    quotas: Quotas = field(default_factory=Quotas)
