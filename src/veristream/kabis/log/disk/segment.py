"""One file of the log: a header, two durability marks, then frames one after the other.

Why the marks: a crash tears the end of a file, a failing disk flips a bit anywhere, and the two must not be
confused. A mark says up to where the file was flushed before the mark was written, so damage below it is
damage, and only what lies above it may be a torn write. A mark is written *after* the flush that it records
and reaches the disk with the next flush, so it costs no flush of its own. Marks alternate between two
sectors, so that a torn mark leaves the one before. ("Protocol-Aware Recovery", FAST 2018, makes the same
distinction.)

A frame contains its position under its own checksum. So a wrong length, a moved frame and a lost walk are
noticed, and after damage the next complete frame tells how many records were lost.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any
from zlib import crc32

from veristream.errors import EnvironmentFailure
from veristream.kabis.protocol.codec import Octets

SECTOR_BYTES = 512
HEADER_BYTES = 3 * SECTOR_BYTES
RECORD_BYTES_MAX = 64 << 20
WINDOW_BYTES = 256 << 10

SEGMENT_MAGIC = b"KABISLOG"
FRAME_MAGIC = b"\xc5K"
VERSION = 1

DATA = 1
GAP = 2
RELEASED = 3
_KINDS = (DATA, GAP, RELEASED)

_HEADER = Struct(">8sIQQI")  # magic, version, first position, created (ms), checksum
_MARK = Struct(">QQQI")  # number, durable position, durable offset, checksum
_FRAME = Struct(">2sBIQII")  # magic, kind, length, position, checksum of payload, checksum of the above
_GAP = Struct(">Q")
_CHECKSUM_BYTES = 4

FRAME_BYTES = _FRAME.size
GAP_BYTES = FRAME_BYTES + _GAP.size
"""The frame of a gap."""


class Damaged(EnvironmentFailure):
    """Durable bytes are not what was written."""

    def __init__(self, file: str, offset: int, position: int, reason: str) -> None:
        super().__init__(
            f"{file} is damaged at byte {offset}, record {position}: {reason}",
            "the records after it are untouched; `repair` (of a storage party: start it with --repair)"
            " keeps a copy of the file and marks what is lost as lost",
        )
        self.file = file
        self.offset = offset
        self.position = position
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a segment, written when it is made."""

    first_position: int
    created_ms: int


@dataclass(frozen=True, slots=True)
class Mark:
    """Everything before `position`, which is everything before `offset`, was flushed."""

    number: int
    position: int
    offset: int


@dataclass(frozen=True, slots=True)
class Frame:
    """A complete frame: its offset and its positions.

    `kind` is DATA, GAP for records that were lost, or RELEASED for records that nobody wanted any more.
    """

    kind: int
    offset: int
    position: int
    length: int
    payload_checksum: int

    @property
    def end(self) -> int:
        """The offset of the next frame."""
        return self.offset + FRAME_BYTES + self.length


@dataclass(frozen=True, slots=True)
class Fault:
    """Why there is no complete frame at an offset."""

    offset: int
    position: int
    reason: str


class Window:
    """Reads of one file through a buffer of bounded size; short only at the end of the file."""

    def __init__(self, descriptor: int, size: int = WINDOW_BYTES) -> None:
        self._descriptor = descriptor
        self._size = size
        self._start = 0
        self._data = b""

    def get(self, offset: int, length: int) -> bytes:
        """Returns the bytes at the offset, fewer at the end of the file."""
        begin = offset - self._start
        if begin < 0 or begin + length > len(self._data):
            self._data = read_at(self._descriptor, offset, max(length, self._size))
            self._start, begin = offset, 0
        return self._data[begin : begin + length]


def read_at(descriptor: int, offset: int, length: int) -> bytes:
    """The bytes at the offset, fewer only where the file ends."""
    data = os.pread(descriptor, length, offset)
    while data and len(data) < length:
        more = os.pread(descriptor, length - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


def encode_header(header: Header) -> bytes:
    """Encodes the header of a segment, with two marks that say that it is empty."""
    fields = (SEGMENT_MAGIC, VERSION, header.first_position, header.created_ms)
    start = Mark(0, header.first_position, HEADER_BYTES)
    return (
        _checksummed(_HEADER, *fields).ljust(SECTOR_BYTES, b"\0")
        + encode_mark(start)
        + encode_mark(Mark(1, start.position, start.offset))
    )


def encode_mark(mark: Mark) -> bytes:
    """Encodes a mark, which fills its sector."""
    return _checksummed(_MARK, mark.number, mark.position, mark.offset).ljust(SECTOR_BYTES, b"\0")


def mark_offset(mark: Mark) -> int:
    """Returns the offset of a mark; marks alternate between two sectors."""
    return SECTOR_BYTES * (1 + mark.number % 2)


def decode_header(file: str, data: bytes) -> Header:
    """Decodes the header of a segment. Raises `Damaged`: it was complete before the file got its name."""
    sector = data[:SECTOR_BYTES]
    fields = _unpack(_HEADER, sector)
    if fields is None or fields[0] != SEGMENT_MAGIC:
        raise Damaged(file, 0, 0, "the header of the segment is not whole")
    if fields[1] != VERSION:
        raise EnvironmentFailure(
            f"{file} is of version {fields[1]} of the format, this program reads version {VERSION}",
            "open it with the program that wrote it",
        )
    return Header(fields[2], fields[3])


def decode_marks(file: str, data: bytes) -> tuple[Mark, bool]:
    """Returns the newest intact mark, and whether both are intact. Raises `Damaged` if neither is."""
    found = []
    for place in (1, 2):
        fields = _unpack(_MARK, data[place * SECTOR_BYTES : (place + 1) * SECTOR_BYTES])
        if fields is not None:
            found.append(Mark(*fields[:3]))
    if not found:
        raise Damaged(file, SECTOR_BYTES, 0, "neither durability mark is whole")
    return max(found, key=lambda mark: mark.number), len(found) == 2


def encode_frame(position: int, payload: Sequence[Octets]) -> bytes:
    """Encodes the head of a frame, whose payload is given in parts."""
    checksum = 0
    for part in payload:
        checksum = crc32(part, checksum)
    return _checksummed(_FRAME, FRAME_MAGIC, DATA, sum(map(len, payload)), position, checksum)


def encode_gap(position: int, count: int, kind: int = GAP) -> bytes:
    """Encodes a complete frame for records that were lost or released."""
    payload = _GAP.pack(count)
    return _checksummed(_FRAME, FRAME_MAGIC, kind, len(payload), position, crc32(payload)) + payload


def decode_gap(payload: bytes) -> int:
    """Returns how many records a gap replaces."""
    count: int = _GAP.unpack(payload)[0]
    return count


def read_frame(window: Window, offset: int, position: int) -> Frame | Fault | None:
    """Reads the frame of a position at the offset; returns None at the end of the file."""
    frame = find_frame(window, offset)
    match frame:
        case None:
            return None
        case str():
            return Fault(offset, position, frame)
        case Frame() if frame.position != position:
            return Fault(
                offset, position, f"record {frame.position} stands where record {position} belongs"
            )
        case _:
            return frame


def find_frame(window: Window, offset: int) -> Frame | str | None:
    """Reads the frame at the offset, or returns why there is none; None at the end of the file."""
    data = window.get(offset, FRAME_BYTES)
    if not data:
        return None
    if len(data) < FRAME_BYTES:
        return "the file ends within a frame's header"
    magic, kind, length, position, payload_checksum, checksum = _FRAME.unpack(data)
    if crc32(data[:-_CHECKSUM_BYTES]) != checksum or magic != FRAME_MAGIC:
        return "the checksum of a frame's header is wrong"
    if length > RECORD_BYTES_MAX or kind not in _KINDS or (kind != DATA and length != _GAP.size):
        return "a frame's header says what is never written"
    return Frame(kind, offset, position, length, payload_checksum)


def read_payload(window: Window, frame: Frame) -> bytes | Fault:
    """Reads and checks the payload of a frame."""
    payload = window.get(frame.offset + FRAME_BYTES, frame.length)
    if len(payload) < frame.length:
        return Fault(frame.offset, frame.position, "the file ends within a record")
    if crc32(payload) != frame.payload_checksum:
        return Fault(frame.offset, frame.position, "the checksum of a record is wrong")
    return payload


def positions_of(frame: Frame, payload: bytes) -> int:
    """Returns how many positions a frame covers: one, or the count of the gap."""
    return 1 if frame.kind == DATA else decode_gap(payload)


def _checksummed(struct: Struct, *fields: object) -> bytes:
    body = struct.pack(*fields, 0)[:-_CHECKSUM_BYTES]
    return body + crc32(body).to_bytes(_CHECKSUM_BYTES, "big")


def _unpack(struct: Struct, sector: bytes) -> tuple[Any, ...] | None:
    """Decodes a sector; returns None unless its checksum is right and the rest is zero."""
    if len(sector) < SECTOR_BYTES or any(sector[struct.size :]):
        return None
    body = sector[: struct.size - _CHECKSUM_BYTES]
    fields: tuple[Any, ...] = struct.unpack(sector[: struct.size])
    return fields if crc32(body) == fields[-1] else None
