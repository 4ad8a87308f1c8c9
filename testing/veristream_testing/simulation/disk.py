"""A disk that forgets what was not synced, and may keep half of a record.

Frames are length, checksum, record. Whatever follows the first frame that does not check is cut off, as a
real log does with a torn tail.
"""

from __future__ import annotations

import struct
from random import Random
from zlib import crc32

_HEAD = struct.Struct(">II")


class Disk:
    """An append-only log of records in memory."""

    def __init__(self) -> None:
        self._durable = b""
        self._pending = b""

    def append(self, record: bytes) -> None:
        """Writes a record; a crash before the next `sync` may lose it or tear it."""
        self._pending += _HEAD.pack(len(record), crc32(record)) + record

    def sync(self) -> None:
        """Makes durable all that was written."""
        self._durable += self._pending
        self._pending = b""

    def crash(self, random: Random) -> None:
        """Loses what was not synced from some byte on."""
        self._durable += self._pending[: random.randint(0, len(self._pending))]
        self._pending = b""

    def recover(self) -> list[bytes]:
        """The records that survived; the torn tail is cut off."""
        records, at = [], 0
        while at + _HEAD.size <= len(self._durable):
            length, checksum = _HEAD.unpack_from(self._durable, at)
            record = self._durable[at + _HEAD.size : at + _HEAD.size + length]
            if len(record) != length or crc32(record) != checksum:
                break
            records.append(record)
            at += _HEAD.size + length
        self._durable = self._durable[:at]
        return records
