"""A record of a party's log as a message's value: its position under a checksum, then the payload.

The position is the message's offset. So the party recognises a message that was altered, moved or written
by somebody else, whatever the broker says. (A message that was altered together with its checksum contains
a batch with another digest than the consumers know.)
"""

from __future__ import annotations

from struct import Struct
from zlib import crc32

_HEAD = Struct(">2sBQI")  # magic, version, position, checksum of all that and the payload
_MAGIC = b"\xc5K"
_VERSION = 1

FRAME_BYTES = _HEAD.size


class FrameError(Exception):
    """The message is not the record of this position."""


def encode_frame(position: int, payload: bytes) -> bytes:
    """Encodes a record as a message."""
    return b"".join((_HEAD.pack(_MAGIC, _VERSION, position, _checksum(position, payload)), payload))


def decode_frame(position: int, message: bytes | None) -> bytes:
    """Returns the payload of the record at a position. Raises FrameError if the message is another."""
    if message is None or len(message) < FRAME_BYTES:
        raise FrameError("it is too short to be a record")
    magic, version, claimed, checksum = _HEAD.unpack_from(message)
    if (magic, version) != (_MAGIC, _VERSION):
        raise FrameError("it is no record of a storage party")
    payload = message[FRAME_BYTES:]
    if checksum != _checksum(claimed, payload):
        raise FrameError("its checksum is wrong")
    if claimed != position:
        raise FrameError(f"it is the record {claimed}, and stands in the wrong place")
    return payload


def _checksum(position: int, payload: bytes) -> int:
    return crc32(payload, crc32(position.to_bytes(8, "big")))
