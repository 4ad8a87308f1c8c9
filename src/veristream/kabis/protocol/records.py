"""Records that a user pushes, their encoding as leaves, and the choice of a partition.

A leaf is: a presence byte (bit 0 the key, 1 the value, 2 the timestamp), the lengths of key and value, the
number of headers, the timestamp, then key, value and headers. An absent part has length 0, so that an event
has one leaf. The fixed part comes first because one `struct` call packs or unpacks it.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from veristream.kabis.protocol.codec import DecodeError

LEAF_BYTES_MAX = 1 << 20
"""The largest event, Kafka's `message.max.bytes` of one MiB."""
HEADERS_MAX = 1000

_LEAF = struct.Struct(">BIIHQ")
_LEAF_BYTES = _LEAF.size
_HEADER = struct.Struct(">IBI")
_KEY, _VALUE, _TIMESTAMP = 1, 2, 4

Headers = tuple[tuple[str, bytes | None], ...]


class TooLargeError(ValueError):
    """The event does not fit a leaf."""


class Record(NamedTuple):
    """What a user pushes; without a partition, the key chooses it. A named tuple, see `Event`."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None


class Event(NamedTuple):
    """The content of a leaf. A named tuple, because a consumer builds one for each event and a frozen
    dataclass takes twice as long to build."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None


def encode_leaf(
    key: bytes | None, value: bytes | None, headers: Headers = (), timestamp_ms: int | None = None
) -> bytes:
    """Encodes an event; raises TooLargeError past a limit and ValueError for a time before 1970."""
    presence = 0
    if key is None:
        key = b""
    else:
        presence = _KEY
    if value is None:
        value = b""
    else:
        presence |= _VALUE
    if timestamp_ms is None:
        timestamp_ms = 0
    else:
        presence |= _TIMESTAMP
    try:
        leaf = _LEAF.pack(presence, len(key), len(value), len(headers), timestamp_ms) + key + value
    except struct.error as error:
        raise ValueError(
            f"{len(headers)} headers or the time {timestamp_ms} ms do not fit a leaf"
        ) from error
    if headers:
        leaf += _encode_headers(headers)
    if len(leaf) > LEAF_BYTES_MAX:
        raise TooLargeError(f"the event takes {len(leaf)} bytes, at most {LEAF_BYTES_MAX}")
    return leaf


def decode_leaf(leaf: bytes) -> Event:
    """Decodes a leaf; raises DecodeError."""
    if not _LEAF_BYTES <= len(leaf) <= LEAF_BYTES_MAX:
        raise DecodeError(f"a leaf of {len(leaf)} bytes, must have {_LEAF_BYTES} to {LEAF_BYTES_MAX}")
    presence, key_length, value_length, header_count, timestamp_ms = _LEAF.unpack_from(leaf)
    key_end = _LEAF_BYTES + key_length
    value_end = key_end + value_length
    if value_end > len(leaf) or presence > 7:
        raise DecodeError("the leaf is truncated")
    headers: Headers = ()
    if header_count:
        headers = _decode_headers(leaf, value_end, header_count)
    elif value_end != len(leaf):
        raise DecodeError("the leaf has trailing bytes")
    if presence == 7:
        return Event(leaf[_LEAF_BYTES:key_end], leaf[key_end:value_end], headers, timestamp_ms)
    if (
        (key_length and not presence & _KEY)
        or (value_length and not presence & _VALUE)
        or (timestamp_ms and not presence & _TIMESTAMP)
    ):
        raise DecodeError("an absent part of the leaf is not empty")
    return Event(
        leaf[_LEAF_BYTES:key_end] if presence & _KEY else None,
        leaf[key_end:value_end] if presence & _VALUE else None,
        headers,
        timestamp_ms if presence & _TIMESTAMP else None,
    )


def _encode_headers(headers: Headers) -> bytes:
    if len(headers) > HEADERS_MAX:
        raise TooLargeError(f"{len(headers)} headers, at most {HEADERS_MAX}")
    parts = []
    for name, value in headers:
        name_bytes, value_bytes = name.encode("utf-8"), value or b""
        parts += [
            _HEADER.pack(len(name_bytes), value is not None, len(value_bytes)),
            name_bytes,
            value_bytes,
        ]
    return b"".join(parts)


def _decode_headers(leaf: bytes, at: int, count: int) -> Headers:
    if count > HEADERS_MAX:
        raise DecodeError(f"{count} headers, at most {HEADERS_MAX}")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        if at + _HEADER.size > len(leaf):
            raise DecodeError("the headers are truncated")
        name_length, present, value_length = _HEADER.unpack_from(leaf, at)
        at += _HEADER.size
        name_end = at + name_length
        value_end = name_end + value_length
        if value_end > len(leaf) or present > 1 or (value_length and not present):
            raise DecodeError("the headers are truncated or not canonical")
        try:
            name = leaf[at:name_end].decode("utf-8")
        except UnicodeDecodeError as error:
            raise DecodeError("the name of a header is not valid UTF-8") from error
        headers.append((name, leaf[name_end:value_end] if present else None))
        at = value_end
    if at != len(leaf):
        raise DecodeError("the leaf has trailing bytes")
    return tuple(headers)


def choose_partition(key: bytes, partitions: int) -> int:
    """Returns the partition of a key, the same as Kafka's clients choose."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """Returns Kafka's 32-bit hash of a key (`org.apache.kafka.common.utils.Utils.murmur2`), unsigned."""
    factor, mask = 0x5BD1E995, 0xFFFFFFFF
    whole = len(data) // 4
    hashed = 0x9747B28C ^ len(data)
    for word in struct.unpack_from(f"<{whole}I", data):
        word = word * factor & mask
        word = (word ^ word >> 24) * factor & mask
        hashed = (hashed * factor & mask) ^ word
    tail = data[4 * whole :]
    if tail:
        hashed = (hashed ^ int.from_bytes(tail, "little")) * factor & mask
    hashed = (hashed ^ hashed >> 13) * factor & mask
    return hashed ^ hashed >> 15
