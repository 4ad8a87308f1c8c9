"""Sealed events open for those with the key, as what they were, and nowhere but where they were written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kabis.chain import CHAIN
from tests.kabis.protocol.test_records import EVENTS
from tests.kabis.strategies import patient
from veristream.errors import ModelError
from veristream.kabis.protocol.records import LEAF_BYTES_MAX, Event, TooLargeError, decode_leaf, encode_leaf
from veristream.kabis.protocol.seal import (
    BrokenSealError,
    NotSealedError,
    Sealer,
    TopicKeys,
    UnknownSealKeyError,
    load_topic_keys,
    save_topic_keys,
)

KEYS = TopicKeys("orders", 3, {3: bytes(32), 1: b"1" * 32})


def nonces(count: int) -> bytes:
    return bytes(range(count))


SEALER = Sealer(CHAIN, KEYS, nonces)


@given(EVENTS)
@patient
def test_what_was_sealed_opens(event: Event) -> None:
    sealed = decode_leaf(SEALER.seal_leaf(*event))
    assert (sealed.key, sealed.headers, sealed.timestamp_ms) == (None, (), event.timestamp_ms)
    assert SEALER.open_event(sealed) == event


def test_nothing_of_the_payload_is_in_the_leaf() -> None:
    leaf = SEALER.seal_leaf(b"the key", b"the value", (("a header", b"its value"),), 5)
    for secret in (b"the key", b"the value", b"a header", b"its value"):
        assert secret not in leaf


def test_a_nonce_is_drawn_for_each_event() -> None:
    sealer = Sealer(CHAIN, KEYS)
    assert sealer.seal_leaf(None, b"same") != sealer.seal_leaf(None, b"same")


@pytest.mark.parametrize(
    "other",
    [
        Sealer("other-chain", KEYS),
        Sealer(CHAIN, replace(KEYS, topic="payments")),
        Sealer(CHAIN, TopicKeys("orders", 3, {3: b"x" * 32})),
    ],
)
def test_it_opens_nowhere_else(other: Sealer) -> None:
    with pytest.raises(BrokenSealError):
        other.open_event(decode_leaf(SEALER.seal_leaf(None, b"value")))


@given(st.data())
@patient
def test_a_changed_byte_breaks_the_seal(data: st.DataObject) -> None:
    value = decode_leaf(SEALER.seal_leaf(None, b"value")).value
    assert value is not None
    at = data.draw(st.integers(0, len(value) - 1))
    changed = value[:at] + bytes([value[at] ^ data.draw(st.integers(1, 255))]) + value[at + 1 :]
    with pytest.raises((BrokenSealError, NotSealedError, UnknownSealKeyError)):
        SEALER.open_event(Event(None, changed))
    with pytest.raises((BrokenSealError, NotSealedError)):
        SEALER.open_event(Event(None, value[:at]))


def test_what_is_not_sealed_or_under_another_key_is_said_so() -> None:
    for value in (None, b"", b"plain"):
        with pytest.raises(NotSealedError):
            SEALER.open_event(Event(None, value))
    newer = Sealer(CHAIN, KEYS.rotate(b"4" * 32))
    sealed = decode_leaf(newer.seal_leaf(None, b"value"))
    with pytest.raises(UnknownSealKeyError, match="key 4"):
        SEALER.open_event(sealed)
    assert newer.open_event(decode_leaf(SEALER.seal_leaf(None, b"old"))).value == b"old"


def test_an_event_too_large_once_sealed_is_refused() -> None:
    room = LEAF_BYTES_MAX - len(encode_leaf(None, b""))
    with pytest.raises(TooLargeError):
        SEALER.seal_leaf(None, bytes(room))


def test_keys_are_checked_and_never_shown() -> None:
    assert repr(KEYS) == "TopicKeys('orders', current=3, ids=[1, 3])"
    for current, keys in ((2, {1: bytes(32)}), (1, {1: bytes(31)}), (1 << 32, {1 << 32: bytes(32)})):
        with pytest.raises(ValueError, match="orders"):
            TopicKeys("orders", current, keys)


def test_the_file_is_private_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "orders.keys"
    save_topic_keys(path, KEYS)
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_topic_keys(path) == KEYS
    with pytest.raises(ModelError, match="exists already"):
        save_topic_keys(path, KEYS)
    for text in ("", "{}", "7", '{"kabis": "topic-keys/1"}', "[" * 100_000):
        path.write_text(text)
        with pytest.raises(ModelError, match="holds no topic keys"):
            load_topic_keys(path)
