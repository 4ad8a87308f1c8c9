"""A disk that loses unsynced data and may keep half of a record.

Frames are length, checksum, record. Everything from the first invalid frame on is cut off, like the torn
tail of a real log.
"""

from __future__ import annotations

import struct
from random import Random
from zlib import crc32

_HEAD = struct.Struct(">II")


class Disk:
    """An append-only log in memory; records before the position `durable` survive a crash."""

    def __init__(self) -> None:
        self._durable = b""
        self._pending = b""
        self.end = 0
        self.durable = 0

    def append(self, record: bytes) -> None:
        """Writes a record; a crash before the next `sync` may lose it or tear it."""
        self.end += 1
        self._pending += _HEAD.pack(len(record), crc32(record)) + record

    def sync(self) -> None:
        """Makes all written records durable."""
        self.durable = self.end
        self._durable += self._pending
        self._pending = b""

    def crash(self, random: Random) -> None:
        """Loses unsynced data from a random byte on."""
        self._durable += self._pending[: random.randint(0, len(self._pending))]
        self._pending = b""

    def recover(self) -> list[bytes]:
        """Returns the surviving records; cuts off the torn tail."""
        records, at = [], 0
        while at + _HEAD.size <= len(self._durable):
            length, checksum = _HEAD.unpack_from(self._durable, at)
            record = self._durable[at + _HEAD.size : at + _HEAD.size + length]
            if len(record) != length or crc32(record) != checksum:
                break
            records.append(record)
            at += _HEAD.size + length
        self._durable = self._durable[:at]
        self.end = self.durable = len(records)
        return records
