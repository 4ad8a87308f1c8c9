"""What passes a proxy, and what can be decided about it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from struct import Struct
from typing import Final, Literal, Protocol

Direction = Literal["to broker", "to client"]


@dataclass(frozen=True, slots=True)
class Request:
    """The head of a request of Kafka's protocol: what is asked (its API key), in which version, by whom."""

    key: int
    version: int
    correlation: int
    client: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes that pass: with a framing a whole message, otherwise what one read returned.

    Connections of a network are counted from 0, and the pieces of each direction of a connection, too.
    With Kafka's framing, `request` is the request, or the one that an answer belongs to.
    """

    node: str
    connection: int
    direction: Direction
    number: int
    data: bytes
    request: Request | None = None


@dataclass(frozen=True, slots=True)
class Pass:
    """It goes on, so many seconds later; what is behind it does not overtake it."""

    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Drop:
    """It does not arrive; what is behind it does."""


@dataclass(frozen=True, slots=True)
class Cut:
    """It does not arrive, and both sides of the connection are closed."""


class Gate:
    """Holds pieces back until somebody opens it, from any thread."""

    def __init__(self) -> None:
        self._opened = threading.Event()
        self._waiting: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._reached = threading.Event()

    def open(self) -> None:
        """Lets pass what is held, and all that comes later."""
        with self._lock:
            self._opened.set()
            waiting, self._waiting = self._waiting, []
        for each in waiting:
            each()

    def wait_reached(self, seconds: float) -> bool:
        """Waits until a piece is held; returns whether one is or was."""
        return self._reached.wait(seconds)

    async def passed(self) -> None:
        """Waits in an event loop until it is open."""
        loop = asyncio.get_running_loop()
        here = asyncio.Event()
        with self._lock:
            self._reached.set()
            if self._opened.is_set():
                return
            self._waiting.append(lambda: _tell(loop, here))
        await here.wait()


def _tell(loop: asyncio.AbstractEventLoop, here: asyncio.Event) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(here.set)


@dataclass(frozen=True, slots=True)
class Hold:
    """It waits at a gate, with all that is behind it; it arrives even if the sender has gone by then."""

    gate: Gate


@dataclass(frozen=True, slots=True)
class Change:
    """Other bytes go on in its place."""

    data: bytes


Decision = Pass | Drop | Cut | Hold | Change
Decide = Callable[[Piece], Decision]
"""Decides about a piece; called in the thread of the proxies, so it must not block."""

PASS: Final = Pass()
DROP: Final = Drop()
CUT: Final = Cut()


def let_pass(piece: Piece) -> Decision:
    """Lets everything pass."""
    return PASS


class Framing(Protocol):
    """Takes apart what passes one connection."""

    def read(
        self, direction: Direction, source: asyncio.StreamReader
    ) -> Awaitable[tuple[bytes, Request | None] | None]:
        """Returns the next piece; None at the end of the connection, or if it cannot be taken apart."""
        ...


CHUNK: Final = 1 << 16


class Bytes:
    """No framing: the bytes as they come."""

    async def read(
        self, direction: Direction, source: asyncio.StreamReader
    ) -> tuple[bytes, Request | None] | None:
        """Returns what is there."""
        data = await source.read(CHUNK)
        return (data, None) if data else None


_LENGTH: Final = Struct(">i")
_HEAD: Final = Struct(">hhih")  # API key, version, correlation id, length of the client's name
_NUMBER: Final = Struct(">i")
FRAME_MAX: Final = 128 << 20
"""A longer one is no message of Kafka: its brokers take no more than 100 MiB."""


class KafkaFrames:
    """Messages of Kafka's protocol; a connection that speaks another one ends."""

    def __init__(self) -> None:
        self._asked: dict[int, Request] = {}

    async def read(
        self, direction: Direction, source: asyncio.StreamReader
    ) -> tuple[bytes, Request | None] | None:
        """Returns the next request or answer."""
        try:
            head = await source.readexactly(_LENGTH.size)
            (length,) = _LENGTH.unpack(head)
            if not _NUMBER.size <= length <= FRAME_MAX:
                return None
            body = await source.readexactly(length)
        except asyncio.IncompleteReadError:
            return None
        if direction == "to client":
            return head + body, self._asked.pop(_NUMBER.unpack_from(body)[0], None)
        if length < _HEAD.size:
            return None
        key, version, correlation, size = _HEAD.unpack_from(body)
        client = body[_HEAD.size : _HEAD.size + max(0, size)].decode(errors="replace")
        request = self._asked[correlation] = Request(key, version, correlation, client)
        return head + body, request
