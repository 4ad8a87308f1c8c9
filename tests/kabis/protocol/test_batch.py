"""The envelope: what its signature covers, and that nothing else passes for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kabis.chain import batch_of, key_of, leaves
from veristream.kabis.protocol.batch import (
    BATCH_EVENTS_MAX,
    BATCH_LEAVES_BYTES_MAX,
    Batch,
    BatchError,
    SignedHeader,
    Stream,
    build_batch,
)
from veristream.kabis.protocol.codec import ZERO_DIGEST, DecodeError
from veristream.kabis.protocol.keys import SignatureError
from veristream.kabis.protocol.merkle import hash_leaf
from veristream.kabis.protocol.records import LEAF_BYTES_MAX, Event

OTHER = {
    "chain_id": "other",
    "topic": "other",
    "partition": 1,
    "producer": "bob",
    "key_epoch": 1,
    "first_sequence": 1,
    "count": 3,
    "previous": bytes([1]) * 32,
    "root": bytes([1]) * 32,
}


def test_a_batch_says_what_it_was_built_from() -> None:
    batch = Batch.decode(batch_of(b"one", b"two", sequence=5).encode())
    batch.verify_contents()
    batch.signed.verify(key_of("alice").public)
    assert batch.events() == [Event(None, b"one", (), 7), Event(None, b"two", (), 7)]
    assert (batch.header.first_sequence, batch.header.count, batch.header.next_sequence) == (5, 2, 7)


def test_a_batch_of_one_has_its_leaf_as_root() -> None:
    assert batch_of(b"one").header.root == hash_leaf(leaves(b"one")[0])


@pytest.mark.parametrize(("field", "value"), OTHER.items())
def test_the_signature_covers_every_field(field: str, value: object) -> None:
    signed = batch_of(b"one", b"two").signed
    changed = SignedHeader(replace(signed.header, **{field: value}), signed.signature)
    assert changed.digest() != signed.digest()
    with pytest.raises(SignatureError):
        changed.verify(key_of("alice").public)


def test_a_name_cannot_lend_bytes_to_its_neighbour() -> None:
    signed = batch_of(b"one").signed
    one = replace(signed.header, chain_id="ab", topic="c")
    assert one.encode() != replace(one, chain_id="a", topic="bc").encode()


@pytest.mark.parametrize("change", ["swap", "alter", "drop", "split"])
def test_other_events_are_noticed(change: str) -> None:
    batch = batch_of(b"one", b"two")
    first, second = batch.leaves
    changed = {
        "swap": (second, first),
        "alter": (first, second[:-1] + b"x"),
        "drop": (first,),
        "split": (first, second[:3], second[3:]),
    }[change]
    with pytest.raises(BatchError):
        Batch(batch.signed, changed).verify_contents()


def test_the_table_of_lengths_must_fill_the_batch() -> None:
    batch = batch_of(b"one", b"two")
    encoded = Batch(batch.signed, (*batch.leaves, b"more")).encode()
    with pytest.raises(DecodeError):
        Batch.decode(encoded)
    with pytest.raises(DecodeError):
        Batch.decode(batch.encode()[:-1])


def test_a_batch_has_one_event_at_least_and_a_limit() -> None:
    stream = Stream("c", "t", 0, "p", 0)
    for count in (0, BATCH_EVENTS_MAX + 1):
        with pytest.raises(ValueError, match=f"a batch of {count} events"):
            build_batch(stream, 0, ZERO_DIGEST, [b""] * count, key_of("p"))


def test_the_largest_batch_decodes_and_a_larger_one_is_not_built() -> None:
    stream = Stream("n" * 249, "n" * 249, 0, "n" * 249, 0)
    whole = [bytes(LEAF_BYTES_MAX)] * 7
    rest = BATCH_LEAVES_BYTES_MAX - 7 * LEAF_BYTES_MAX - 4 * 8
    largest = build_batch(stream, 0, ZERO_DIGEST, [*whole, bytes(rest)], key_of("p"))
    assert Batch.decode(largest.encode()) == largest
    with pytest.raises(ValueError, match=f"at most {BATCH_LEAVES_BYTES_MAX}"):
        build_batch(stream, 0, ZERO_DIGEST, [*whole, bytes(rest + 1)], key_of("p"))


def test_a_header_is_small_whatever_the_payload() -> None:
    assert len(batch_of(*[bytes(5000)] * 100).signed.encode()) == len(batch_of(b"").signed.encode()) < 300
