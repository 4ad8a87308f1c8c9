"""Alters records in Kafka's own files and corrects every checksum, so that Kafka serves them as its own.

A segment is record batches one after the other. A batch has a head of 61 bytes, with a CRC-32C of all that
follows it, and its records, whose lengths are varints (Kafka's message format, version 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

_HEAD = Struct(">qiibI")  # base offset, length of the rest, leader epoch, magic, checksum
_LENGTH_END = 12
_CHECKSUM = Struct(">I")
_CHECKSUM_AT = 17
_CHECKED_FROM = 21
_COUNT_AT = 57
_RECORDS_AT = 61
_COMPRESSION = 0b111


@dataclass(frozen=True, slots=True)
class Value:
    """A message's value: its offset in the partition, and the position of its bytes in the segment."""

    offset: int
    start: int
    end: int
    batch: slice


def checksum(data: bytes) -> int:
    """Computes CRC-32C (Castagnoli), which Kafka uses."""
    remainder = 0xFFFFFFFF
    for byte in data:
        remainder = _TABLE[(remainder ^ byte) & 0xFF] ^ (remainder >> 8)
    return remainder ^ 0xFFFFFFFF


def _tabulate(remainder: int) -> int:
    for _ in range(8):
        remainder = (remainder >> 1) ^ (0x82F63B78 if remainder & 1 else 0)
    return remainder


_TABLE = [_tabulate(byte) for byte in range(256)]


def read_values(data: bytes) -> Iterator[Value]:
    """Returns the values of all messages in a segment; every batch's checksum must be correct."""
    at = 0
    while at < len(data):
        base, length, _, magic, stated = _HEAD.unpack_from(data, at)
        batch = slice(at, at + _LENGTH_END + length)
        assert magic == 2 and stated == checksum(data[at + _CHECKED_FROM : batch.stop])
        assert not data[at + _CHECKED_FROM + 1] & _COMPRESSION
        count = int.from_bytes(data[at + _COUNT_AT : at + _RECORDS_AT], "big")
        place = at + _RECORDS_AT
        for _ in range(count):
            size, place = _read_varint(data, place)
            end = place + size
            yield _read_value(data, place, base, batch)
            place = end
        at = batch.stop


def _read_value(data: bytes, at: int, base: int, batch: slice) -> Value:
    _, at = _read_varint(data, at + 1)  # after the attributes: the timestamp delta
    number, at = _read_varint(data, at)
    key_bytes, at = _read_varint(data, at)
    size, at = _read_varint(data, at + max(0, key_bytes))
    return Value(base + number, at, at + max(0, size), batch)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Reads a zigzag varint; returns the number and the position after it."""
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at


def alter(folder: Path, wanted: bytes, change: Callable[[int, bytes], bytes]) -> int:
    """Replaces the only value of a partition that contains these bytes by the result of `change`.

    `change` gets the value's offset and the value, and gives as many bytes; the offset is given back. The
    broker must not run.
    """
    (segment,) = folder.glob("*.log")
    data = bytearray(segment.read_bytes())
    (value,) = (each for each in read_values(bytes(data)) if wanted in data[each.start : each.end])
    before = bytes(data[value.start : value.end])
    after = change(value.offset, before)
    assert len(after) == len(before) and after != before
    data[value.start : value.end] = after
    checked = bytes(data[value.batch.start + _CHECKED_FROM : value.batch.stop])
    _CHECKSUM.pack_into(data, value.batch.start + _CHECKSUM_AT, checksum(checked))
    segment.write_bytes(data)
    return value.offset
