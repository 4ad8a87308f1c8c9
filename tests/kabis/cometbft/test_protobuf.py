"""The wire format, against encodings that the format's own documentation gives, and against junk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kabis.strategies import patient
from veristream.kabis.cometbft.abci import decode_request
from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.protobuf import (
    decode,
    decode_varint,
    encode_bytes,
    encode_fixed,
    encode_integer,
    encode_message,
    encode_varint,
)


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        (encode_integer(1, 150), "08 96 01"),
        (encode_bytes(2, b"testing"), "12 07 74 65 73 74 69 6e 67"),
        (encode_message(3, encode_integer(1, 150)), "1a 03 08 96 01"),
        (encode_integer(1, -1), "08 ff ff ff ff ff ff ff ff ff 01"),
        (encode_fixed(2, 1), "11 01 00 00 00 00 00 00 00"),
        (encode_integer(1, 0) + encode_bytes(2, b"") + encode_fixed(3, 0), ""),
        (encode_message(4, b""), "22 00"),
    ],
)
def test_known_encodings(encoded: bytes, text: str) -> None:
    assert encoded == bytes.fromhex(text)


@patient
@given(st.integers(-(1 << 63), (1 << 63) - 1), st.lists(st.binary(max_size=9), max_size=3))
def test_what_is_encoded_is_decoded(number: int, items: list[bytes]) -> None:
    message = decode(
        encode_integer(1, number)
        + encode_fixed(2, number)
        + b"".join(encode_message(300, each) for each in items)
    )
    assert (message.integer(1), message.integer(2)) == (number, number)
    assert message.each(300) == tuple(items)


@given(st.integers(0, (1 << 64) - 1))
def test_varints(number: int) -> None:
    encoded = encode_varint(number)
    assert decode_varint(encoded, 0) == (number, len(encoded))
    with pytest.raises(DecodeError):
        decode_varint(encoded[:-1], 0)


@pytest.mark.parametrize(
    "text", ["08", "08 80", "0a 02 61", "0b", "00 00", "08" + "ff" * 10, "09 01", "07"]
)
def test_what_is_no_message_is_refused(text: str) -> None:
    with pytest.raises(DecodeError):
        decode(bytes.fromhex(text))


@patient
@given(st.binary(max_size=40))
def test_junk_raises_only_decode_errors(data: bytes) -> None:
    for take in (decode, decode_request):
        try:
            take(data)
        except DecodeError:
            continue
