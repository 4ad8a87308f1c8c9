"""Bytes as somebody hostile would send them, and what reading them may cost."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, Protocol

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kabis.strategies import patient
from veristream.kabis.protocol.codec import Reader

QUICK = 12
LONG = 400
"""How many inputs a test has that runs every time, and one that may take long."""

HUGE = tuple(bytes.fromhex(each) for each in ("ffffffff", "7fffffff", "00ffffff", "000fffff", "00002710"))
"""Lengths and counts: beyond every limit, and within those of some."""

MEMORY_BYTES_MAX = 200_000
MEASURED_MAX = 3
MEMORY_PER_BYTE_MAX = 40
"""What a decoder may hold: this, and so much for each byte it is given: Python's objects are large."""

CALLS_MAX = 500
CALLS_PER_BYTE_MAX = 8
"""How many calls a decoder may make: a count, and no clock, so that a busy machine is no failure."""


class Fuzzed(Protocol):
    """A test on a few random inputs, for every run of the tests; `at_length` is the same on many."""

    at_length: Callable[..., None]

    def __call__(self, *arguments: object) -> None:
        """Runs it."""


def fuzzed(**inputs: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Fuzzed]:
    """Makes a property of random inputs a test; its `at_length` needs a name in the module to be found."""

    def decorate(check: Callable[..., None]) -> Fuzzed:
        quick: Fuzzed = settings(patient, max_examples=QUICK)(given(**inputs)(check))  # type: ignore[assignment]
        quick.at_length = pytest.mark.long(settings(patient, max_examples=LONG)(given(**inputs)(check)))
        return quick

    return decorate


@st.composite
def mutated(draw: st.DrawFn, encodings: st.SearchStrategy[bytes]) -> bytes:
    """A valid encoding with one to three things wrong."""
    data = draw(encodings)
    for _ in range(draw(st.integers(1, 3))):
        data = draw(_changes(data))
    return data


def _changes(data: bytes) -> st.SearchStrategy[bytes]:
    places = st.integers(0, max(0, len(data) - 1))
    some = st.binary(min_size=1, max_size=8)
    return st.one_of(
        places.map(lambda at: data[:at]),
        st.builds(lambda at, bit: flip(data, at, bit), places, st.integers(0, 7)),
        st.builds(lambda at, huge: overwrite(data, at, huge), places, st.sampled_from(HUGE)),
        st.builds(lambda at, more: data[:at] + more + data[at:], places, some),
        st.builds(lambda at, end: data[:at] + data[end:], places, places),
        some.map(lambda more: data + more),
    )


def flip(data: bytes, at: int, bit: int) -> bytes:
    """The bytes with one bit flipped."""
    return overwrite(data, at, bytes((data[at] ^ 1 << bit,))) if data else data


def overwrite(data: bytes, at: int, new: bytes) -> bytes:
    """The bytes with others in the place of some; as long as before."""
    return (data[:at] + new + data[at + len(new) :])[: len(data)]


def find_lengths(decode: Callable[[bytes], object], data: bytes) -> list[int]:
    """Where in a valid encoding the decoder reads lengths and counts, and other numbers of four bytes."""
    found: list[int] = []
    read = Reader.u32

    def note(reader: Reader) -> int:
        found.append(reader._at)
        return read(reader)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Reader, "u32", note)
        decode(data)
    return found


def blow_ups(data: bytes, places: Iterable[int]) -> list[bytes]:
    """The bytes with the four at each of these places made a huge length."""
    return [overwrite(data, at, huge) for at in places for huge in HUGE]


def measure_memory(
    decode: Callable[[bytes], object], inputs: list[bytes], per_byte: int = MEMORY_PER_BYTE_MAX
) -> int:
    """By how many bytes the dearest of the inputs went over what decoding it may hold; 0 if none did."""
    gc.collect()
    tracemalloc.start()
    try:
        return max((_excess(decode, data, per_byte) for data in inputs), default=0)
    finally:
        tracemalloc.stop()


def _excess(decode: Callable[[bytes], object], data: bytes, per_byte: int) -> int:
    """By how much decoding this goes over, each time: other threads of the process allocate too."""
    found = []
    for _ in range(MEASURED_MAX):
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        decode(data)
        peak = tracemalloc.get_traced_memory()[1] - before
        excess = peak - MEMORY_BYTES_MAX - per_byte * len(data)
        if excess <= 0:
            return 0
        found.append(excess)
    return min(found)


def count_calls(decode: Callable[[bytes], object], data: bytes) -> int:
    """How many calls decoding makes, those of C functions among them."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        decode(data)
    finally:
        sys.setprofile(before)
    return calls
