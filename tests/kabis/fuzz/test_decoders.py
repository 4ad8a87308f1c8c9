"""No bytes from outside crash a decoder, and none make it take much memory or many steps."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kabis.fuzz.decoders import (
    CODED,
    DECODERS,
    FILES,
    INSIDE,
    METHODS,
    OTHERS,
    Decoder,
    find_coded,
    find_functions,
    find_methods,
)
from tests.kabis.fuzz.mutation import (
    CALLS_MAX,
    CALLS_PER_BYTE_MAX,
    blow_ups,
    count_calls,
    find_lengths,
    measure_memory,
    mutated,
)
from tests.kabis.strategies import patient
from veristream.kabis.protocol.codec import Coded, DecodeError, Reader, Writer, domain_tag

EACH = pytest.mark.parametrize("name", DECODERS)
HUGE_EXAMPLES = int(os.environ.get("VERISTREAM_SEEDS", "200")) // 50
"""Each is tried with a huge length at every place, so few of them take long."""


def test_every_kind_of_value_that_is_decoded_is_here() -> None:
    assert find_coded() == set(CODED)


def test_every_function_that_decodes_is_here() -> None:
    assert find_functions() == OTHERS.keys() | INSIDE.keys() | FILES


def test_every_class_that_makes_itself_of_bytes_is_here() -> None:
    assert find_methods() == set(METHODS)


@EACH
@given(data=st.data())
@settings(patient, max_examples=2)
def test_what_is_whole_is_read_and_what_is_cut_off_does_no_harm(name: str, data: st.DataObject) -> None:
    decoder = DECODERS[name]
    whole = data.draw(decoder.encodings)
    assert not isinstance(decoder(whole), Exception)
    for end in range(len(whole)):
        decoder(whole[:end])


def try_changed(decoder: Decoder, data: st.DataObject) -> None:
    """Whatever is wrong with the bytes, they are read or refused."""
    decoder(data.draw(mutated(decoder.encodings)))


@EACH
@given(data=st.data())
@settings(patient, max_examples=5)
def test_what_is_changed_does_no_harm(name: str, data: st.DataObject) -> None:
    try_changed(DECODERS[name], data)


@pytest.mark.long
@EACH
@given(data=st.data())
@settings(patient, max_examples=500)
def test_what_is_changed_does_no_harm_at_length(name: str, data: st.DataObject) -> None:
    try_changed(DECODERS[name], data)


@given(noise=st.binary(max_size=300))
@settings(patient, max_examples=15)
def test_noise_is_refused(noise: bytes) -> None:
    for kind in CODED:
        assert isinstance(DECODERS[name_of(kind)](noise), DecodeError)
        DECODERS[name_of(kind)](domain_tag(kind.KIND) + noise)
    for decoder in OTHERS.values():
        decoder(noise)


def name_of(kind: type[Coded]) -> str:
    return f"{kind.__module__.split('.', 2)[2]}.{kind.__name__}"


def try_huge(decoder: Decoder, whole: bytes, places: Iterable[int]) -> None:
    """Huge lengths at these places cost neither memory nor steps."""
    hostile = blow_ups(whole, places)
    assert measure_memory(decoder, hostile) == 0
    for each in hostile:
        assert count_calls(decoder, each) <= CALLS_MAX + CALLS_PER_BYTE_MAX * len(each)


@EACH
@given(data=st.data())
@settings(patient, max_examples=2)
def test_a_huge_length_costs_neither_memory_nor_steps(name: str, data: st.DataObject) -> None:
    decoder = DECODERS[name]
    whole = data.draw(decoder.encodings)
    places = [*find_lengths(decoder, whole)[:20], *range(0, len(whole) - 3, len(whole) // 8 + 1)]
    try_huge(decoder, whole, places)


@pytest.mark.long
@EACH
@given(data=st.data())
@settings(patient, max_examples=HUGE_EXAMPLES)
def test_a_huge_length_costs_neither_memory_nor_steps_at_length(name: str, data: st.DataObject) -> None:
    whole = data.draw(DECODERS[name].encodings)
    try_huge(DECODERS[name], whole, range(len(whole) - 3))


def test_lengths_are_found_where_they_are_read() -> None:
    writer = Writer("test")
    writer.text("name")
    writer.items((b"a", b"bc"), 5, lambda value: writer.blob(value, 5))

    def decode(data: bytes) -> object:
        reader = Reader(data, "test")
        return reader.text(), reader.items(5, lambda: reader.blob(5))

    start = len(domain_tag("test"))
    assert find_lengths(decode, writer.to_bytes()) == [start, start + 8, start + 12, start + 17]


def test_a_decoder_that_believes_a_length_is_caught() -> None:
    """What holds the others would notice: this one makes room for as much as it is told."""

    def believe(data: bytes) -> object:
        return bytearray(int.from_bytes(data[:4], "big"))

    assert measure_memory(believe, [bytes((0, 0x7F, 0, 0))]) > 1 << 20
    assert count_calls(lambda data: [len(data) for _ in range(10_000)], b"") >= 10_000
    crash = Decoder(lambda data: data[0], st.just(b""))
    with pytest.raises(IndexError):
        crash(b"")


def test_a_count_is_not_believed_before_the_bytes_are_there() -> None:
    writer = Writer("test")
    writer.u32(1000)
    reader = Reader(writer.to_bytes(), "test")
    with pytest.raises(DecodeError, match="truncated: 1000 items expected, 0 bytes left"):
        reader.items(1000, reader.u8)
