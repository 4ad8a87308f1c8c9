"""Leaves have one encoding, and keys go to the partitions that Kafka's clients choose."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kabis.strategies import patient
from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.records import (
    HEADERS_MAX,
    LEAF_BYTES_MAX,
    Event,
    TooLargeError,
    choose_partition,
    decode_leaf,
    encode_leaf,
    murmur2,
)

KAFKA = {  # UtilsTest.testMurmur2 of Apache Kafka, and values that the JVM client gives
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
    b"": 275646681,
    b"1": -1993445489,
    b"12": 126087238,
    b"123": -267702483,
    b"1234": -1614185708,
    b"12345": -1188365604,
}

OPTIONAL = st.none() | st.binary(max_size=40)
EVENTS = st.builds(
    Event,
    OPTIONAL,
    OPTIONAL,
    st.lists(st.tuples(st.text(max_size=8), OPTIONAL), max_size=4).map(tuple),
    st.none() | st.integers(0, (1 << 64) - 1),
)


@pytest.mark.parametrize(("key", "expected"), KAFKA.items())
def test_murmur2_is_kafkas(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected % (1 << 32)
    assert choose_partition(key, 12) == (expected & 0x7FFFFFFF) % 12


@given(EVENTS)
@patient
def test_leaves_round_trip(event: Event) -> None:
    assert decode_leaf(encode_leaf(*event)) == event


@given(st.binary(max_size=80) | EVENTS.map(lambda event: encode_leaf(*event)), st.data())
@patient
def test_a_leaf_that_decodes_is_the_only_one(leaf: bytes, data: st.DataObject) -> None:
    if leaf and data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(leaf) - 1))
        leaf = leaf[:at] + bytes([data.draw(st.integers(0, 255))]) + leaf[at + 1 :]
    try:
        event = decode_leaf(leaf)
    except DecodeError:
        return
    assert encode_leaf(*event) == leaf


def test_absent_is_not_empty() -> None:
    assert encode_leaf(None, b"") != encode_leaf(b"", None) != encode_leaf(None, None)
    assert decode_leaf(encode_leaf(None, None)) == Event(None, None)
    assert decode_leaf(encode_leaf(b"", b"", (("", None),), 0)) == Event(b"", b"", (("", None),), 0)


def test_limits_hold_on_both_sides() -> None:
    room = LEAF_BYTES_MAX - len(encode_leaf(None, b""))
    assert decode_leaf(encode_leaf(None, bytes(room))).value == bytes(room)
    with pytest.raises(TooLargeError):
        encode_leaf(None, bytes(room + 1))
    with pytest.raises(TooLargeError):
        encode_leaf(None, None, (("name", None),) * (HEADERS_MAX + 1))
    with pytest.raises(DecodeError):
        decode_leaf(encode_leaf(None, bytes(room)) + b"\0")
    with pytest.raises(ValueError, match="-1 ms"):
        encode_leaf(None, None, (), -1)
