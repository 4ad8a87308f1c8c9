"""Produce requests and their answers, taken apart: names, epochs and error codes of all versions."""

from __future__ import annotations

import struct

import pytest

from veristream.brokers.proxy.pieces import Piece, Request
from veristream.brokers.proxy.produce import Answered, Written, read_answered, read_written

TAG = b"\x01\x05\x02ab"
"""One tagged field, number 5, of two bytes."""

BATCH = struct.pack(">qiibIhiqqqh", 0, 61, 0, 2, 1, 0x10, 0, 0, 0, 4_000_000_007, 3) + bytes(20)


def text(value: bytes, compact: bool) -> bytes:
    return bytes([len(value) + 1]) + value if compact else struct.pack(">h", len(value)) + value


def request(version: int) -> bytes:
    new = version >= 9
    topic = bytes(16) if version >= 13 else text(b"orders" * 30 if new else b"orders", False)
    if new and version < 13:
        topic = b"\xb5\x01" + b"orders" * 30  # 181 as two bytes: one more than 180
    one = b"\x02" if new else struct.pack(">i", 1)
    size = b"\x80\x01" if new else struct.pack(">i", len(BATCH))
    body = b"".join(
        (
            struct.pack(">hhih", 0, version, 5, 2) + b"me",
            TAG if new else b"",
            text(b"tx-1", new) + struct.pack(">hi", -1, 1500),
            one + topic + one + struct.pack(">i", 0) + size + BATCH,
        )
    )
    return struct.pack(">i", len(body)) + body


def answer(version: int, error: int, offset: int) -> bytes:
    new = version >= 9
    topic = bytes(16) if version >= 13 else text(b"orders", new)
    one = b"\x02" if new else struct.pack(">i", 1)
    body = struct.pack(">i", 5) + (TAG if new else b"") + one + topic + one
    body += struct.pack(">ihq", 0, error, offset) + bytes(20)
    return struct.pack(">i", len(body)) + body


def piece(data: bytes, version: int, key: int = 0) -> Piece:
    return Piece("b", 0, "to broker", 0, data, Request(key, version, 5, "me"))


@pytest.mark.parametrize("version", [3, 8, 9, 10, 12, 13])
def test_a_write_says_who_wrote_it(version: int) -> None:
    assert read_written(piece(request(version), version)) == Written(version, "tx-1", 4_000_000_007, 3)


@pytest.mark.parametrize("version", [3, 8, 9, 10, 12, 13])
def test_an_answer_says_what_came_of_it(version: int) -> None:
    assert read_answered(piece(answer(version, 47, -1), version)) == Answered(47, -1)
    assert read_answered(piece(answer(version, 0, 1 << 40), version)) == Answered(0, 1 << 40)


@pytest.mark.parametrize("version", [3, 9, 13])
def test_what_is_cut_off_is_not_read(version: int) -> None:
    whole = request(version)
    for size in range(len(whole) - len(BATCH)):
        assert read_written(piece(whole[:size], version)) is None
    needed = len(answer(version, 0, 0)) - 20
    for size in range(needed):
        assert read_answered(piece(answer(version, 0, 0)[:size], version)) is None


def test_other_requests_are_not_read() -> None:
    assert read_written(piece(request(9), 9, key=1)) is None
    assert read_answered(piece(answer(9, 0, 0), 9, key=1)) is None
    assert read_written(piece(request(9), 2)) is None
    nobody = Piece("b", 0, "to client", 0, answer(9, 0, 0))
    assert (read_written(nobody), read_answered(nobody)) == (None, None)
