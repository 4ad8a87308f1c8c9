"""The frames of AMQP 0-9-1, so that proxies know which method a client calls, and which one calls it back.

with ProxyNetwork(targets, AmqpFrames) as network:
    network.decide = steering = Steering()
    steering.perform(Rule("late", "hold", Match(key=Method.PUBLISH, client="publisher")))

A client is known by the `connection_name` that it gives when it connects.
"""

from __future__ import annotations

from enum import IntEnum
from itertools import count
from struct import Struct
from typing import ClassVar, Final

from veristream.brokers.proxy.pieces import Direction, NotSpoken, Request


class Method(IntEnum):
    """Methods by class and number; `OTHER` is any other one, and what is no method."""

    OTHER = 1 << 16
    START_OK = 10 << 16 | 11
    PUBLISH = 60 << 16 | 40
    RETURN = 60 << 16 | 50
    DELIVER = 60 << 16 | 60
    ACK = 60 << 16 | 80
    REJECT = 60 << 16 | 90
    NACK = 60 << 16 | 120


GREETING: Final = b"AMQP\x00\x00\x09\x01"
END: Final = 0xCE
METHOD: Final = 1
KINDS: Final = (METHOD, 2, 3, 8)
"""Method, header, body and heartbeat."""

NAME: Final = b"\x0fconnection_nameS"
"""How the entry of a client's properties begins that names its connection: a long string follows."""

FRAME_MAX: Final = 1 << 20
"""More than RabbitMQ agrees on; a longer one is no frame."""

_HEAD: Final = Struct(">BHI")  # kind, channel, length
_METHOD: Final = Struct(">I")
_LENGTH: Final = Struct(">I")


class AmqpFrames:
    """Takes a connection apart into frames; the version of a message is the number of its channel."""

    is_raw: ClassVar[bool] = False

    def __init__(self) -> None:
        self._client = ""
        self._asked = count()
        self._told = count(-1, -1)

    def size(self, direction: Direction, data: bytearray) -> int | None:
        """Returns the length of a frame, or of a client's greeting; of a method once all of it is there."""
        if data[: len(GREETING)] == GREETING[: len(data)]:
            return len(GREETING) if len(data) >= len(GREETING) else None
        if len(data) < _HEAD.size:
            return None
        kind, _, length = _HEAD.unpack_from(data)
        if kind not in KINDS or length > FRAME_MAX:
            raise NotSpoken
        size = _HEAD.size + int(length) + 1
        if kind == METHOD and len(data) < size:
            return None
        if len(data) >= size and data[size - 1] != END:
            raise NotSpoken
        return size

    def request(self, direction: Direction, data: bytearray) -> Request | None:
        """Returns what the next frame is."""
        number = next(self._asked if direction == "to broker" else self._told)
        if data.startswith(GREETING):
            return Request(Method.OTHER, 0, number, self._client)
        kind, channel, length = _HEAD.unpack_from(data)
        if kind != METHOD or length < _METHOD.size:
            return Request(Method.OTHER, channel, number, self._client)
        key = int(_METHOD.unpack_from(data, _HEAD.size)[0])
        method = Method(key) if key in set(Method) else Method.OTHER
        if method is Method.START_OK:
            self._client = find_name(bytes(data[: _HEAD.size + length]))
        return Request(method, channel, number, self._client)


def find_name(start: bytes) -> str:
    """Returns the name that a client gives its connection when it starts it, empty if it gives none."""
    _, found, rest = start.partition(NAME)
    if not found or len(rest) < _LENGTH.size:
        return ""
    length = int(_LENGTH.unpack_from(rest)[0])
    return rest[_LENGTH.size : _LENGTH.size + length].decode("utf-8", errors="replace")
