"""A sparse index of the records in a segment: one entry every few KiB; a walk finds the rest.

The index file only saves a walk through the segment. It is used if its checksum is right and it belongs to
exactly this segment; otherwise it is rebuilt.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from struct import Struct
from zlib import crc32

from veristream.kabis.log.disk.segment import HEADER_BYTES

INTERVAL_BYTES = 16 << 10

_MAGIC = b"KABISIDX"
_HEADER = Struct(">8sQQQI")  # magic, first position, end position, end offset, entries
_CHECKSUM_BYTES = 4
_ENTRY_BYTES = 16


class SparseIndex:
    """Some of the records of a segment, in ascending order; always the first."""

    def __init__(self, first_position: int) -> None:
        self._positions = array("Q", [first_position])
        self._offsets = array("Q", [HEADER_BYTES])

    def add(self, position: int, offset: int) -> None:
        """Adds a record if it is far enough from the last entry."""
        if offset - self._offsets[-1] >= INTERVAL_BYTES:
            self._positions.append(position)
            self._offsets.append(offset)

    def before(self, position: int) -> tuple[int, int]:
        """Returns position and offset of the last entry that is not after the position."""
        place = bisect_right(self._positions, position) - 1
        return self._positions[place], self._offsets[place]

    def encode(self, end_position: int, end_offset: int) -> bytes:
        """Encodes the index of a segment that ends there."""
        head = _HEADER.pack(_MAGIC, self._positions[0], end_position, end_offset, len(self._positions))
        body = head + _big_endian(self._positions).tobytes() + _big_endian(self._offsets).tobytes()
        return body + crc32(body).to_bytes(_CHECKSUM_BYTES, "big")

    @staticmethod
    def decode(data: bytes, first_position: int, end_position: int, end_offset: int) -> SparseIndex | None:
        """Decodes the index of this segment; returns None if it is damaged or of another segment."""
        body, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
        if len(body) < _HEADER.size or crc32(body) != int.from_bytes(checksum, "big"):
            return None
        *found, count = _HEADER.unpack(body[: _HEADER.size])
        if found != [_MAGIC, first_position, end_position, end_offset]:
            return None
        if count == 0 or len(body) != _HEADER.size + count * _ENTRY_BYTES:
            return None
        index = SparseIndex(first_position)
        middle = _HEADER.size + count * _ENTRY_BYTES // 2
        index._positions = _big_endian(array("Q", body[_HEADER.size : middle]))
        index._offsets = _big_endian(array("Q", body[middle:]))
        return index


def _big_endian(values: array[int]) -> array[int]:
    copy = values[:]
    if sys.byteorder == "little":
        copy.byteswap()
    return copy
