"""The part of Protocol Buffers that CometBFT uses: four wire types, no schemas.

Encoding is canonical as proto3's is in practice: fields ascend, and those with their default value are left
out. Decoding takes any order, as the format says, and raises `DecodeError` and nothing else.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from veristream.kabis.protocol.codec import DecodeError

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_WORD = (1 << 64) - 1


def encode_varint(value: int) -> bytes:
    """Encodes a varint: seven bits per byte, lowest first; negative numbers as 64-bit two's complement."""
    value &= _WORD
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def encode_integer(number: int, value: int) -> bytes:
    """Encodes an int32, int64, uint64 or enum field; omits 0."""
    return encode_varint(number << 3 | VARINT) + encode_varint(value) if value else b""


def encode_fixed(number: int, value: int) -> bytes:
    """Encodes an sfixed64 field; omits 0."""
    return encode_varint(number << 3 | FIXED64) + struct.pack("<q", value) if value else b""


def encode_bytes(number: int, value: bytes) -> bytes:
    """Encodes a bytes or string field; omits an empty value."""
    return encode_message(number, value) if value else b""


def encode_message(number: int, value: bytes) -> bytes:
    """Encodes a message field or an item of a repeated field, even if it is empty."""
    return encode_varint(number << 3 | LENGTH) + encode_varint(len(value)) + value


@dataclass(frozen=True, slots=True)
class Message:
    """A decoded message: the values of each field, in order of arrival."""

    integers: dict[int, int] = field(default_factory=dict)
    blobs: dict[int, list[bytes]] = field(default_factory=dict)

    def integer(self, number: int) -> int:
        """Returns the last integer of a field; 0 if there is none."""
        return self.integers.get(number, 0)

    def blob(self, number: int) -> bytes:
        """Returns the last bytes of a field; empty if there are none."""
        return self.blobs.get(number, [b""])[-1]

    def each(self, number: int) -> tuple[bytes, ...]:
        """Returns all items of a repeated field."""
        return tuple(self.blobs.get(number, ()))

    def text(self, number: int) -> str:
        """Returns the text of a field; empty if there is none."""
        try:
            return self.blob(number).decode("utf-8")
        except UnicodeDecodeError as error:
            raise DecodeError("a text is not valid UTF-8") from error

    def message(self, number: int) -> Message:
        """Returns a nested message; an empty one if there is none."""
        return decode(self.blob(number))


def decode(data: bytes) -> Message:
    """Decodes a message, but not the messages nested in it."""
    message = Message()
    for number, value in _fields(data):
        if isinstance(value, int):
            message.integers[number] = value
        else:
            message.blobs.setdefault(number, []).append(value)
    return message


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = decode_varint(data, at)
        match tag & 7:
            case kind if tag >> 3 == 0:
                raise DecodeError(f"a field without a number, of wire type {kind}")
            case 0:
                value, at = decode_varint(data, at)
                yield tag >> 3, value - (1 << 64) if value >> 63 else value
            case 1 | 5 as kind:
                width = 8 if kind == FIXED64 else 4
                taken, at = _take(data, at, width)
                yield tag >> 3, int.from_bytes(taken, "little", signed=True)
            case 2:
                length, at = decode_varint(data, at)
                taken, at = _take(data, at, length)
                yield tag >> 3, taken
            case kind:
                raise DecodeError(f"unsupported wire type {kind}")


def decode_varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns the number that starts at a position, and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise DecodeError("truncated: a number is incomplete")
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > _WORD:
                break
            return value, at
    raise DecodeError("a number exceeds 64 bits")


def _take(data: bytes, at: int, length: int) -> tuple[bytes, int]:
    if length > len(data) - at:
        raise DecodeError(f"truncated: {length} bytes expected, {len(data) - at} left")
    return data[at : at + length], at + length
