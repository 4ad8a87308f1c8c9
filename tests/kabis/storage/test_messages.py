"""Every decoder of the storage party: what was encoded comes back, and anything else is a DecodeError."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kabis.storage.chain import STREAM, batch, certificate
from veristream.kabis.log.disk.index import SparseIndex
from veristream.kabis.protocol.answers import Absent, Below
from veristream.kabis.protocol.codec import Coded, DecodeError
from veristream.kabis.protocol.partitions import PartitionName
from veristream.kabis.protocol.plain import PlainAppend, PlainEntry, PlainSlice
from veristream.kabis.storage import messages
from veristream.kabis.storage.entries import BatchEntry, Checkpoint, Extent, decode_entry
from veristream.kabis.storage.messages import Batches

HERE = messages.__name__
PLACE = PartitionName("clicks", 3)
APPEND = PlainAppend(PLACE, b"s" * 16, 7, (b"one", b"", b"three"))
PAIR = (batch(0, [b"good"]).signed, batch(0, [b"evil"]).signed)
SLICE = PlainSlice(11, (PlainEntry(5, APPEND), PlainEntry(8, APPEND)))

CASES: list[tuple[Callable[[bytes], object], bytes, object]] = [
    (PlainAppend.decode, APPEND.encode(), APPEND),
    (PlainEntry.decode, PlainEntry(5, APPEND).encode(), PlainEntry(5, APPEND)),
    *(
        (type(value).decode, value.encode(), value)
        for value in (
            messages.FetchRange(STREAM, 9, 1000),
            messages.FetchPlain(PLACE, 9, 1000, 50),
            messages.AskAbsence(batch(0).signed, certificate(7)),
            messages.CatchUp(9, 1000),
            messages.RaiseLowWater(STREAM, 9),
            messages.RaiseLowWater(PLACE, 9),
            messages.Status(1, 2, 3, 4, 5, 6),
            Checkpoint(((STREAM, Extent(1, 2)),), ((PLACE, Extent(3, 4)),)),
        )
    ),
    (messages.AskEvidence.decode, messages.AskEvidence("orders").encode(), messages.AskEvidence("orders")),
    (messages.decode_digest, bytes(32), bytes(32)),
    (Batches.decode, Batches(9, (b"one", b"two")).encode(), Batches(9, (b"one", b"two"))),
    (PlainSlice.decode, SLICE.encode(), SLICE),
    (messages.Evidence.decode, messages.Evidence((PAIR,)).encode(), messages.Evidence((PAIR,))),
    (messages.split_request, b"\x09rest", (messages.Operation.STATUS, b"rest")),
    (messages.split_answer, messages.found(b"it"), b"it"),
    (messages.split_answer, messages.missing(Absent()), Absent()),
    (messages.split_answer, messages.missing(Below(77)), Below(77)),
    (decode_entry, BatchEntry(3, b"batch").encode(), BatchEntry(3, b"batch")),
    (decode_entry, PlainEntry(5, APPEND).encode(), PlainEntry(5, APPEND)),
    (decode_entry, Checkpoint().encode(), Checkpoint()),
]


@pytest.mark.parametrize(("decode", "data", "value"), CASES)
def test_what_was_encoded_comes_back(decode: Callable[[bytes], object], data: bytes, value: object) -> None:
    assert decode(data) == value


def test_every_decoder_is_among_the_cases() -> None:
    classes = [each for each in vars(messages).values() if isinstance(each, type) and each is not Coded]
    kinds = {each.decode for each in classes if issubclass(each, Coded) and each.__module__ == HERE}
    functions = {each for name, each in vars(messages).items() if name.startswith(("decode_", "split_"))}
    assert (len(kinds), len(functions)) == (9, 3)
    decoders = {*kinds, *functions, Batches.decode, PlainSlice.decode}
    assert decoders <= {decode for decode, _data, _value in CASES}


def try_to_decode(decode: Callable[[bytes], object], data: bytes) -> None:
    """Decodes, or raises DecodeError; anything else fails the test, and so does much memory."""
    tracemalloc.start()
    try:
        decode(data)
    except DecodeError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 200_000 + 20 * len(data)


@settings(max_examples=400, deadline=None)
@given(which=st.sampled_from(CASES), data=st.data())
def test_changed_bytes_raise_only_decode_errors(
    which: tuple[Callable[[bytes], object], bytes, object], data: st.DataObject
) -> None:
    decode, encoded, _value = which
    changed = bytearray(encoded)
    for _ in range(data.draw(st.integers(1, 4))):
        if changed:
            changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(
                st.sampled_from((0, 1, 0x7F, 0x80, 0xFF)) | st.integers(0, 255)
            )
    cut = data.draw(st.integers(0, len(changed)))
    try_to_decode(decode, bytes(changed))
    try_to_decode(decode, bytes(changed[:cut]))
    try_to_decode(decode, bytes(changed) + b"\0")


@settings(max_examples=400, deadline=None)
@given(which=st.sampled_from(CASES), junk=st.binary(max_size=200))
def test_junk_raises_only_decode_errors(
    which: tuple[Callable[[bytes], object], bytes, object], junk: bytes
) -> None:
    try_to_decode(which[0], junk)


@given(junk=st.binary(max_size=200))
def test_a_junk_index_is_no_index(junk: bytes) -> None:
    assert SparseIndex.decode(junk, 0, 10, 1000) is None


@given(junk=st.data())
def test_a_changed_index_is_no_index(junk: st.DataObject) -> None:
    index = SparseIndex(5)
    for number in range(6, 100):
        index.add(number, number * 20_000)
    encoded = bytearray(index.encode(100, 2_000_000))
    assert SparseIndex.decode(bytes(encoded), 5, 100, 2_000_000) is not None
    encoded[junk.draw(st.integers(0, len(encoded) - 1))] ^= junk.draw(st.integers(1, 255))
    assert SparseIndex.decode(bytes(encoded), 5, 100, 2_000_000) is None
