"""Every encoding round-trips, is the only one, and takes what anybody may send without crash or bulk."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kabis.chain import make_genesis
from tests.kabis.strategies import CODED, patient
from veristream.kabis.ledger.event_receipts import EventReceipt
from veristream.kabis.protocol.actions import decode_action
from veristream.kabis.protocol.batch import Batch, BatchHeader, SignedHeader
from veristream.kabis.protocol.blocks import Block, BlockHeader
from veristream.kabis.protocol.codec import ZERO_DIGEST, Coded, DecodeError, Reader, Writer, domain_tag
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.receipts import CommitCertificate
from veristream.kabis.protocol.transactions import BatchConflict, Submit, decode_transaction

KINDS = pytest.mark.parametrize("kind", CODED)
ALL = st.one_of(*CODED.values())


@KINDS
@given(data=st.data())
@settings(patient, max_examples=40)
def test_encodings_round_trip(kind: str, data: st.DataObject) -> None:
    value = data.draw(CODED[kind])
    assert type(value).decode(value.encode()) == value


@given(ALL)
@patient
def test_transactions_and_actions_are_told_apart_by_their_tag(value: Coded) -> None:
    encoded = value.encode()
    for decode in (decode_transaction, decode_action):
        try:
            assert decode(encoded) == value
        except DecodeError:
            continue


def mutate(encoded: bytes, data: st.DataObject) -> bytes:
    """The bytes with one thing wrong: a byte changed, cut off, put in, or a length made huge."""
    at = data.draw(st.integers(0, len(encoded) - 1))
    match data.draw(st.sampled_from(["change", "cut", "insert", "append", "huge"])):
        case "change":
            return encoded[:at] + bytes([encoded[at] ^ data.draw(st.integers(1, 255))]) + encoded[at + 1 :]
        case "cut":
            return encoded[:at]
        case "insert":
            return encoded[:at] + data.draw(st.binary(min_size=1, max_size=4)) + encoded[at:]
        case "append":
            return encoded + data.draw(st.binary(min_size=1, max_size=4))
        case _:
            return encoded[:at] + b"\xff\xff\xff\xff" + encoded[at + 4 :]


@KINDS
@given(data=st.data())
@settings(patient, max_examples=60)
def test_mutated_bytes_raise_or_are_the_encoding_of_what_they_decode_to(
    kind: str, data: st.DataObject
) -> None:
    value = data.draw(CODED[kind])
    mutated = mutate(value.encode(), data)
    try:
        decoded = type(value).decode(mutated)
    except DecodeError:
        return
    assert decoded.encode() == mutated


@given(st.binary(max_size=300))
@patient
def test_random_bytes_raise_only_decode_errors(noise: bytes) -> None:
    for kind in (
        BatchHeader,
        SignedHeader,
        Batch,
        Block,
        BlockHeader,
        CommitCertificate,
        Genesis,
        EventReceipt,
    ):
        with pytest.raises(DecodeError):
            kind.decode(noise)
        tagged = domain_tag(kind.KIND) + noise
        try:
            assert kind.decode(tagged).encode() == tagged
        except DecodeError:
            continue


@pytest.mark.parametrize(
    ("kind", "start"),
    [
        (CommitCertificate, bytes(8 + 4 + 32)),
        (Submit, b""),
        (Block, b""),
        (Batch, b""),
        (EventReceipt, b""),
        (BatchConflict, b""),
        (Genesis, b""),
    ],
)
def test_a_huge_length_allocates_nothing(kind: type[Coded], start: bytes) -> None:
    for length in (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x10\x00\x00"):
        hostile = domain_tag(kind.KIND) + start + length * 12
        tracemalloc.start()
        try:
            with pytest.raises(DecodeError):
                kind.decode(hostile)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 100_000


def test_a_batch_that_counts_more_than_it_holds_allocates_nothing() -> None:
    header = BatchHeader("c", "t", 0, "p", 0, 0, 10_000, ZERO_DIGEST, ZERO_DIGEST)
    hostile = Batch(SignedHeader(header, bytes(64)), ()).encode() + b"\xff" * 400
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            Batch.decode(hostile)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("count", [0, 10_001])
def test_a_batch_has_one_event_at_least_and_a_limit(count: int) -> None:
    header = BatchHeader("c", "t", 0, "p", 0, 0, count, ZERO_DIGEST, ZERO_DIGEST)
    with pytest.raises(DecodeError, match=f"a batch of {count} events"):
        BatchHeader.decode(header.encode())


def test_sequences_end_at_64_bits() -> None:
    header = BatchHeader("c", "t", 0, "p", 0, (1 << 64) - 1, 1, ZERO_DIGEST, ZERO_DIGEST)
    with pytest.raises(DecodeError, match="64 bits"):
        BatchHeader.decode(header.encode())


def test_what_is_longer_than_its_kind_may_be_is_not_looked_at() -> None:
    with pytest.raises(DecodeError, match="at most 2048 for a batch-header"):
        BatchHeader.decode(bytes(2049))


def test_the_writer_refuses_what_could_not_be_read() -> None:
    writer = Writer("test")
    for write in (
        lambda: writer.u32(1 << 32),
        lambda: writer.u8(256),
        lambda: writer.u64(-1),
        lambda: writer.digest(b"short"),
        lambda: writer.text("n" * 250),
        lambda: writer.items((1, 2), 1, writer.u8),
    ):
        with pytest.raises(ValueError, match=r"."):
            write()
    assert writer.to_bytes() == domain_tag("test")


def test_a_truth_value_has_two_encodings_and_a_text_is_utf8() -> None:
    with pytest.raises(DecodeError, match="a flag is 2, not 0 or 1"):
        Reader(domain_tag("test") + b"\x02", "test").flag()
    with pytest.raises(DecodeError, match="not valid UTF-8"):
        Reader(domain_tag("test") + b"\x00\x00\x00\x01\xff", "test").text()


def test_a_genesis_round_trips_without_its_addresses() -> None:
    genesis = make_genesis()
    assert Genesis.decode(genesis.encode()) == genesis
