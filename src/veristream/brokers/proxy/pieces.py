"""What passes a proxy, and what can be decided about it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import ClassVar, Final, Literal, Protocol

LOOKED_AT: Final = 1 << 16
"""How many bytes of a message are looked at before a decision."""

Direction = Literal["to broker", "to client"]


@dataclass(frozen=True, slots=True)
class Request:
    """The head of a request of Kafka's protocol: what is asked (its API key), in which version, by whom.

    Other framings give each message one, in which the key says of which kind it is, and the correlation
    tells it apart on its connection, negative if the broker says it by itself.
    """

    key: int
    version: int
    correlation: int
    client: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes that pass: with a framing a whole message, otherwise what one read returned.

    Connections of a network are counted from 0, and the pieces of each direction of a connection, too.
    `size` is its length, and `data` its first `LOOKED_AT` bytes or more. With Kafka's framing, `request` is
    the request, or the one that an answer belongs to; with others, see `Request`.
    """

    node: str
    connection: int
    direction: Direction
    number: int
    data: bytes
    request: Request | None = None
    size: int = 0


@dataclass(frozen=True, slots=True)
class Pass:
    """It goes on, so many seconds later; what is behind it does not overtake it.

    `then` is called when its last byte was handed to the system.
    """

    after_s: float = 0.0
    then: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Drop:
    """It does not arrive; what is behind it does."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Both sides of the connection are closed. It only arrives with `after`; `then` is called before."""

    after: bool = False
    then: Callable[[], None] | None = None


class Gate:
    """Holds pieces back until somebody opens it, from any thread; `reached` is called for each."""

    def __init__(self, reached: Callable[[], None] | None = None) -> None:
        self._is_open = False
        self._waiting: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._tell = reached
        self._reached = threading.Event()

    def open(self) -> None:
        """Lets pass what is held, and all that comes later."""
        with self._lock:
            self._is_open = True
            waiting, self._waiting = self._waiting, []
        for each in waiting:
            each()

    def wait_reached(self, seconds: float) -> bool:
        """Waits until a piece is held; returns whether one is or was."""
        return self._reached.wait(seconds)

    def arrive(self, go_on: Callable[[], None]) -> bool:
        """Returns whether it is open; otherwise `go_on` is called once it is."""
        with self._lock:
            if not self._is_open:
                self._waiting.append(go_on)
            is_open = self._is_open
        if self._tell is not None:
            self._tell()
        self._reached.set()
        return is_open


@dataclass(frozen=True, slots=True)
class Hold:
    """It waits at a gate, with all that is behind it; it arrives even if the sender has gone by then.

    It is at the gate once all of it has come. `then` is called when its last byte was handed to the system.
    """

    gate: Gate
    then: Callable[[], None] | None = None


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
    """Lets everything pass; a network that asks it does not look at what passes."""
    return PASS


class NotSpoken(Exception):  # noqa: N818  # no error of ours
    """What passes is not what the framing takes apart."""


class Framing(Protocol):
    """Takes apart what passes one connection."""

    is_raw: ClassVar[bool]
    """Whether there are no messages, so that bytes may be divided anywhere."""

    def size(self, direction: Direction, data: bytearray) -> int | None:
        """Returns the length of the message that begins here, or None if more is needed for `request`.

        Raises NotSpoken if it is none.
        """
        ...

    def request(self, direction: Direction, data: bytearray) -> Request | None:
        """Returns the request that the next message is or answers; called once for each message."""
        ...


class Bytes:
    """No framing: the bytes as they come."""

    is_raw: ClassVar[bool] = True

    def size(self, direction: Direction, data: bytearray) -> int | None:
        """Returns all that is there."""
        return len(data) or None

    def request(self, direction: Direction, data: bytearray) -> Request | None:
        """Returns None."""
        return None


_LENGTH: Final = Struct(">i")
_ASKED: Final = Struct(">ihhih")  # length, API key, version, correlation id, length of the client's name
_ANSWERED: Final = Struct(">ii")  # length, correlation id
FRAME_MAX: Final = 128 << 20
"""A longer one is no message of Kafka: its brokers take no more than 100 MiB."""


class KafkaFrames:
    """Messages of Kafka's protocol; a connection that speaks another one ends."""

    is_raw: ClassVar[bool] = False

    def __init__(self) -> None:
        self._asked: dict[int, Request] = {}

    def size(self, direction: Direction, data: bytearray) -> int | None:
        """Returns the length of a request or an answer."""
        head = _ASKED if direction == "to broker" else _ANSWERED
        if len(data) < _LENGTH.size:
            return None
        size = int(_LENGTH.unpack_from(data)[0]) + _LENGTH.size
        if not head.size <= size <= FRAME_MAX:
            raise NotSpoken
        if len(data) < head.size:
            return None
        if direction == "to broker" and len(data) < min(size, _ASKED.size + _ASKED.unpack_from(data)[4]):
            return None
        return size

    def request(self, direction: Direction, data: bytearray) -> Request | None:
        """Returns the request, or the one that an answer has the number of.

        A broker answers in the order of the requests, so those before it get no answer any more.
        """
        if direction == "to broker":
            _, key, version, correlation, size = _ASKED.unpack_from(data)
            client = data[_ASKED.size : _ASKED.size + max(0, size)].decode(errors="replace")
            request = self._asked[correlation] = Request(key, version, correlation, client)
            return request
        correlation = _ANSWERED.unpack_from(data)[1]
        if correlation in self._asked:
            while (first := next(iter(self._asked))) != correlation:
                del self._asked[first]
        return self._asked.pop(correlation, None)
