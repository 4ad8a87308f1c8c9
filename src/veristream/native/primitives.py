"""What loops do with raw memory: calls through an address, loads and stores, atomics, prefetch.

Everything takes and returns 64-bit signed integers; an address is one of them. These are declarations that
only loops can use; `intrinsics` has the code that takes their place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

Word = Any
"""A 64-bit integer: an `int`, or a number of NumPy's."""


class Primitive:
    """The name of an operation of native code."""

    def __init__(self, name: str) -> None:
        self.name = name


def primitive(function: Function) -> Function:
    """Declares an operation of native code, with the types of its arguments."""
    return cast(Function, Primitive(function.__name__))


@primitive
def call_1(address: Word, a: Word) -> Word:
    """Calls a native function of one argument."""
    raise NotImplementedError


@primitive
def call_2(address: Word, a: Word, b: Word) -> Word:
    """Calls a native function of two arguments."""
    raise NotImplementedError


@primitive
def call_3(address: Word, a: Word, b: Word, c: Word) -> Word:
    """Calls a native function of three arguments."""
    raise NotImplementedError


@primitive
def call_4(address: Word, a: Word, b: Word, c: Word, d: Word) -> Word:
    """Calls a native function of four arguments."""
    raise NotImplementedError


@primitive
def load_word(address: Word) -> Word:
    """Loads the 64-bit word at the address."""
    raise NotImplementedError


@primitive
def store_word(address: Word, value: Word) -> Word:
    """Stores a 64-bit word and returns it."""
    raise NotImplementedError


@primitive
def load_loose(address: Word) -> Word:
    """Loads the 64-bit word at an address that need not be a multiple of 8."""
    raise NotImplementedError


@primitive
def store_loose(address: Word, value: Word) -> Word:
    """Stores a 64-bit word at an address that need not be a multiple of 8; returns it."""
    raise NotImplementedError


@primitive
def load_half(address: Word) -> Word:
    """Loads the unsigned 32-bit number at the address."""
    raise NotImplementedError


@primitive
def store_half(address: Word, value: Word) -> Word:
    """Stores the low 32 bits; returns the value."""
    raise NotImplementedError


@primitive
def load_short(address: Word) -> Word:
    """Loads the unsigned 16-bit number at the address."""
    raise NotImplementedError


@primitive
def store_short(address: Word, value: Word) -> Word:
    """Stores the low 16 bits; returns the value."""
    raise NotImplementedError


@primitive
def word_at(address: Word, index: Word) -> Word:
    """Loads an item of an array of 64-bit words."""
    raise NotImplementedError


@primitive
def set_word(address: Word, index: Word, value: Word) -> Word:
    """Stores an item of an array of 64-bit words and returns it."""
    raise NotImplementedError


@primitive
def half_at(address: Word, index: Word) -> Word:
    """Loads an item of an array of unsigned 32-bit numbers."""
    raise NotImplementedError


@primitive
def set_half(address: Word, index: Word, value: Word) -> Word:
    """Stores the low 32 bits as an item of an array; returns the value."""
    raise NotImplementedError


@primitive
def claim(address: Word, value: Word) -> Word:
    """Stores the value if the word is 0, after all earlier writes; returns the previous word."""
    raise NotImplementedError


@primitive
def load_shared_half(address: Word) -> Word:
    """Loads an unsigned 32-bit number and makes visible what was written before it was stored (acquire)."""
    raise NotImplementedError


@primitive
def claim_half(address: Word, value: Word) -> Word:
    """Stores the low 32 bits as `claim` stores a word; returns the previous number, unsigned."""
    raise NotImplementedError


@primitive
def fetch_add(address: Word, value: Word) -> Word:
    """Atomically adds to the word; returns the previous word."""
    raise NotImplementedError


@primitive
def prefetch(address: Word) -> Word:
    """Prefetches the cache line at the address; returns the address."""
    raise NotImplementedError


@primitive
def lowest_bit(word: Word) -> Word:
    """The position of the lowest bit that is set; 64 if none is."""
    raise NotImplementedError


@primitive
def count_bits(word: Word) -> Word:
    """How many bits are set."""
    raise NotImplementedError
