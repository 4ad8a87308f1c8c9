"""The identity of a message: what recorders write into it, and what is no identity."""

from __future__ import annotations

import pytest

from veristream.history.identity import UNKNOWN, decode, decode_payload, encode, encode_payload

LARGEST = (2**31 - 1, 2**63 - 1)


@pytest.mark.parametrize("identity", [(0, 0), (3, 12345), LARGEST])
def test_what_is_encoded_is_decoded(identity: tuple[int, int]) -> None:
    assert decode(encode(*identity)) == identity
    assert decode_payload(encode_payload(*identity, b";vs:1:1;\x00")) == identity
    assert decode_payload(encode_payload(*identity)) == identity


def test_the_format_is_the_documented_one() -> None:
    assert encode(3, 12345) == b"vs:3:12345"
    assert encode_payload(3, 12345, b"body") == b"vs:3:12345;body"


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"vs:3",
        b"vs:3:",
        b"vs:-1:0",
        b"vs:03:1",
        b"vs:3:1 ",
        b"vs:3:1\n",
        b"vs:2147483648:0",
        b"vs:0:9223372036854775808",
        b"VS:3:1",
        b"\xff\x00",
    ],
)
def test_anything_else_is_unknown(value: bytes | None) -> None:
    assert decode(value) == UNKNOWN
    assert decode_payload(None if value is None else value + b"x;") == UNKNOWN


def test_a_payload_that_was_cut_is_unknown() -> None:
    payload = encode_payload(3, 12345)
    for length in range(len(payload)):
        assert decode_payload(payload[:length]) == UNKNOWN
