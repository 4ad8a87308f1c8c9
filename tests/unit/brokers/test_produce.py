"""Produce requests and their answers, taken apart: names, epochs and error codes of all versions."""

from __future__ import annotations

import struct

import pytest

from veristream.brokers.proxy.header import Header, read_answer, read_request
from veristream.brokers.proxy.pieces import Request

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
    body += struct.pack(">ihqq", 0, error, offset, -1)
    body += b"" if version < 5 else struct.pack(">q", 0)
    if version >= 8:
        body += b"\x01\x00" if new else struct.pack(">ih", 0, -1)  # errors of records, their message
    body += TAG + TAG if new else b""
    return struct.pack(">i", len(body)) + body


ASKED = {version: Request(0, version, 5, "me") for version in (3, 8, 9, 10, 12, 13)}


@pytest.mark.parametrize("version", ASKED)
def test_a_write_says_who_wrote_it(version: int) -> None:
    (found,) = read_request(ASKED[version], request(version)).transactions
    assert (found.transactional_id, found.producer_id, found.epoch) == ("tx-1", 4_000_000_007, 3)


@pytest.mark.parametrize("version", ASKED)
def test_an_answer_says_what_came_of_it(version: int) -> None:
    header = Header(ASKED[version])
    refused = read_answer(header, answer(version, 47, -1))
    assert (refused.errors, refused.offset) == ((47,), -1)
    stored = read_answer(header, answer(version, 0, 1 << 40))
    assert (stored.errors, stored.offset) == ((0,), 1 << 40)


@pytest.mark.parametrize("version", ASKED)
def test_what_is_cut_off_is_not_read(version: int) -> None:
    header, whole, said = Header(ASKED[version]), request(version), answer(version, 0, 0)
    for size in range(len(whole) - len(BATCH)):
        assert all(
            one.producer_id is None for one in read_request(ASKED[version], whole[:size]).transactions
        )
    for size in range(len(said) - 1):
        found = read_answer(header, said[:size])
        assert (found.errors, found.offset) == (None, None)
