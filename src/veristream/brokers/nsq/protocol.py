"""The TCP protocol of nsqd: commands as bytes, and the frames that come back.

nsqd executes the commands of a connection one after the other, and its answers come in that order;
messages and heartbeats come between them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

MAGIC: Final = b"  V2"
HEARTBEAT: Final = b"_heartbeat_"
NOTHING: Final = b"NOP\n"
CLOSE: Final = b"CLS\n"
ID_BYTES: Final = 16
FRAME_MAX: Final = 1 << 28
"""More than nsqd sends in one frame, whatever its options are: a longer one is no frame of nsqd."""

FENCE: Final = b"veristream-fence"
"""As long as the id of a message, and none: ids are hexadecimal."""

_HEAD: Final = struct.Struct(">II")
_MESSAGE: Final = struct.Struct(">qH16s")


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to a command that nsqd executed, or a heartbeat."""

    body: bytes


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to a command that nsqd refused: its code, such as `E_FIN_FAILED`, and the rest."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Message:
    """A delivery: `attempts` counts the deliveries of this message that nsqd remembers, from 1."""

    id: bytes
    attempts: int
    time_ns: int
    body: bytes


Frame = Response | Refusal | Message


class BadFrame(ConnectionError):  # noqa: N818  # as the other ConnectionErrors are called
    """What arrived is not of nsqd; nothing that follows can be understood."""


class FrameBuffer:
    """Cuts what arrives into frames."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits, not even a part of a frame."""
        return not self._waiting

    def feed(self, data: bytes) -> None:
        """Adds bytes that arrived."""
        self._waiting += data

    def next(self) -> Frame | None:
        """Returns the next whole frame; raises BadFrame."""
        if len(self._waiting) < _HEAD.size:
            return None
        size, kind = _HEAD.unpack_from(self._waiting)
        if not 4 <= size <= FRAME_MAX:
            raise BadFrame(f"a frame of {size} bytes")
        if len(self._waiting) < 4 + size:
            return None
        data = bytes(self._waiting[_HEAD.size : 4 + size])
        del self._waiting[: 4 + size]
        return _read(kind, data)


def _read(kind: int, data: bytes) -> Frame:
    if kind == 0:
        return Response(data)
    if kind == 1:
        code, _, text = data.decode("utf-8", errors="replace").partition(" ")
        return Refusal(code, text)
    if kind == 2 and len(data) >= _MESSAGE.size:
        time_ns, attempts, id_ = _MESSAGE.unpack_from(data)
        return Message(id_, attempts, time_ns, data[_MESSAGE.size :])
    raise BadFrame(f"a frame of kind {kind} with {len(data)} bytes")


def identify(options: Mapping[str, object]) -> bytes:
    """Returns the command that tells nsqd about this client, which is answered."""
    return b"IDENTIFY\n" + _sized(json.dumps(options).encode())


def read_features(answer: bytes) -> Mapping[str, object]:
    """Reads the answer to `identify`: what applies to the connection, such as `msg_timeout` in ms."""
    try:
        found = json.loads(answer)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise BadFrame(f"no features: {answer[:40]!r}")
    return found


def publish(topic: str, body: bytes) -> bytes:
    """Returns PUB, which is answered."""
    return b"PUB %b\n" % topic.encode() + _sized(body)


def publish_many(topic: str, bodies: Sequence[bytes]) -> bytes:
    """Returns MPUB, which has one answer for all messages."""
    inside = struct.pack(">I", len(bodies)) + b"".join(map(_sized, bodies))
    return b"MPUB %b\n" % topic.encode() + _sized(inside)


def subscribe(topic: str, channel: str) -> bytes:
    """Returns SUB, which is answered."""
    return b"SUB %b %b\n" % (topic.encode(), channel.encode())


def ready(count: int) -> bytes:
    """Returns RDY, which has no answer."""
    return b"RDY %d\n" % count


def finish(id_: bytes) -> bytes:
    """Returns FIN, which has an answer only if it fails."""
    return b"FIN %b\n" % id_


def requeue(id_: bytes, delay_ms: int) -> bytes:
    """Returns REQ, which has an answer only if it fails."""
    return b"REQ %b %d\n" % (id_, delay_ms)


def touch(id_: bytes) -> bytes:
    """Returns TOUCH, which has an answer only if it fails."""
    return b"TOUCH %b\n" % id_


def _sized(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data
