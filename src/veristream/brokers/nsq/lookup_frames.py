"""What an nsqd and nsqlookupd say to each other, so that proxies know which registration is under way.

    with ProxyNetwork({"nsqlookupd-1": address}, partial(LookupFrames, "nsqd-1")) as network:
        network.decide = steering = Steering()
        steering.perform(Rule("late", "hold", Match(key=Command.REGISTER, client="nsqd-1")))

Commands are lines, of which IDENTIFY has a body; each has one answer, and answers come in their order.
"""

from __future__ import annotations

from collections import deque
from enum import IntEnum
from itertools import count
from struct import Struct
from typing import ClassVar, Final

from veristream.brokers.proxy.pieces import Direction, NotSpoken, Request


class Command(IntEnum):
    """The commands of an nsqd, with numbers that no request of Kafka's has."""

    OTHER = 1 << 16
    IDENTIFY = 1 << 16 | 1
    REGISTER = 1 << 16 | 2
    UNREGISTER = 1 << 16 | 3
    PING = 1 << 16 | 4


MAGIC: Final = b"  V1"
LINE_MAX: Final = 1 << 10
ANSWER_MAX: Final = 1 << 20
_LENGTH: Final = Struct(">I")


class LookupFrames:
    """Takes a connection apart into commands and answers; nobody says who connects, so that is given."""

    is_raw: ClassVar[bool] = False

    def __init__(self, client: str = "") -> None:
        self._client = client
        self._numbers = count()
        self._asked: deque[Request] = deque()

    def size(self, direction: Direction, data: bytearray) -> int | None:
        """Returns the length of the magic, of a command, or of an answer."""
        if direction == "to client":
            return _sized(data, 0, ANSWER_MAX)
        if data[: len(MAGIC)] == MAGIC[: len(data)]:
            return len(MAGIC) if len(data) >= len(MAGIC) else None
        end = data.find(b"\n", 0, LINE_MAX)
        if end < 0:
            if len(data) >= LINE_MAX:
                raise NotSpoken
            return None
        return _sized(data, end + 1, ANSWER_MAX) if _word(data) == Command.IDENTIFY.name else end + 1

    def request(self, direction: Direction, data: bytearray) -> Request | None:
        """Returns the command, or the one that is answered."""
        if direction == "to client":
            return self._asked.popleft() if self._asked else None
        if data.startswith(MAGIC):
            return None
        word = _word(data)
        command = Command[word] if word in Command.__members__ else Command.OTHER
        request = Request(command, 1, next(self._numbers), self._client)
        self._asked.append(request)
        return request


def _word(data: bytearray) -> str:
    """Returns the name of the command that begins here."""
    line = bytes(data[: data.index(b"\n")])
    return line.partition(b" ")[0].decode("utf-8", errors="replace")


def _sized(data: bytearray, begin: int, most: int) -> int | None:
    """Returns where the bytes end that begin with their length, None if that is not there yet."""
    if len(data) < begin + _LENGTH.size:
        return None
    length = int(_LENGTH.unpack_from(data, begin)[0])
    if length > most:
        raise NotSpoken
    return begin + _LENGTH.size + length
