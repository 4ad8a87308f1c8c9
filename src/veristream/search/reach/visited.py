"""The visited set: rows in arenas, found through one hash table that workers share.

A state's index is its arena's base plus its number within the arena; every worker appends to an arena
of its own. A slot of the table has 32 bits: 0, or the state's arena and number plus 1 below as many bits of
the row's fingerprint as there is room for. Whole rows are compared, so two different states are never
confused. A worker writes the row before it claims the slot, so every reader of the slot can read the row.

Rows are stored as they are, or as *keys*: the only word of a row without the bytes that are always 0, or
what `packing` makes of a row of several words.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from veristream.native.loop import loop
from veristream.native.primitives import (
    claim_half,
    load_loose,
    load_shared_half,
    load_word,
    prefetch,
    store_half,
    store_loose,
    store_word,
)

ROOT = 0xFFFFFFFF
"""The parent of an initial state."""

SLOT_BITS = 32
AHEAD = 16
"""So many states before one is entered into a new table, its slot is prefetched."""

_SEED = np.uint64(0x9E3779B97F4A7C15)
_K1 = np.uint64(0xBF58476D1CE4E5B9)
_K2 = np.uint64(0x94D049BB133111EB)
_S32, _S29 = np.uint64(32), np.uint64(29)


class Store(NamedTuple):
    """Addresses of the table, the rows and the parents, and how slots and indices are divided.

    `parents` is 0 if they are not kept. An index is an arena's number above `arena_bits` bits of a state's
    number in it; a slot has the same with `number_bits`, and from `tag_shift` on bits of the fingerprint.

    `key_words` is 0 if rows are stored as they are. Otherwise keys of so many words are, in `key_size`
    bytes; the mask has the bits of the last word. `packing` is the address of the fields of a key, or 0 if
    the key is the row.
    """

    table: int
    slot_count: int
    rows: int
    parents: int
    word_count: int
    arena_bits: int
    number_bits: int
    tag_shift: int
    key_words: int = 0
    key_size: int = 0
    key_mask: int = 0
    packing: int = 0


def size_arenas(wanted: int, arena_count: int) -> tuple[int, int]:
    """The size of each arena, if so many states are wanted in one, and the bits of a number in it. If there
    are several, the size is a power of two: an index has the arena's number above the state's."""
    if arena_count == 1:
        return min(wanted, (1 << SLOT_BITS) - 2), SLOT_BITS
    bits = min((wanted - 1).bit_length(), SLOT_BITS - (arena_count - 1).bit_length())
    return 1 << bits, bits


def store_of(
    table: int,
    slot_count: int,
    rows: int,
    parents: int,
    word_count: int,
    arenas: tuple[int, int] = (1, SLOT_BITS),
) -> Store:
    """The visited set with these parts; `arenas` are their count, and the bits of a number in one."""
    arena_count, arena_bits = arenas
    above = (arena_count - 1).bit_length()
    number_bits = min(slot_count.bit_length(), SLOT_BITS - above)
    return Store(table, slot_count, rows, parents, word_count, arena_bits, number_bits, number_bits + above)


@loop
def _absorb(h, word):  # type: ignore[no-untyped-def]
    h = (h ^ np.uint64(word)) * _K1
    return h ^ (h >> _S32)


@loop
def _finish(h):  # type: ignore[no-untyped-def]
    h *= _K2
    return np.int64(h ^ (h >> _S29))


@loop
def mix(word: int) -> int:
    """The fingerprint of a row of one word."""
    return _finish(_absorb(_SEED, word))


@loop
def fingerprint(row: int, word_count: int) -> int:
    """64 bits of the row at the address; the same on every machine and in every run."""
    h = _SEED
    for k in range(word_count):
        h = _absorb(h, load_word(row + 8 * k))
    return _finish(h)


@loop
def high_half(print_: int) -> int:
    """The upper 32 bits of a fingerprint."""
    return np.int64(np.uint64(print_) >> _S32)  # type: ignore[return-value]


@loop
def same_row(left: int, right: int, word_count: int) -> bool:
    """Whether two rows are equal."""
    for k in range(word_count):
        if load_word(left + 8 * k) != load_word(right + 8 * k):
            return False
    return True


@loop
def home(print_: int, slot_count: int) -> int:
    """The slot at which the lookup of a fingerprint begins: its low half, scaled to the table's size."""
    return ((print_ & 0xFFFFFFFF) * slot_count) >> 32


@loop
def expect(table: int, slot_count: int, print_: int) -> None:
    """Prefetches the cache line in which the fingerprint will be looked up."""
    prefetch(table + 4 * home(print_, slot_count))


@loop
def _entry(store, print_, index):  # type: ignore[no-untyped-def]
    """The slot of a state with this fingerprint."""
    tag = high_half(print_) >> store.tag_shift
    number = (index & ((1 << store.arena_bits) - 1)) + 1
    return (tag << store.tag_shift) | ((index >> store.arena_bits) << store.number_bits) | number


@loop
def _index(store, entry):  # type: ignore[no-untyped-def]
    """The index of the state that a slot stands for."""
    place = entry & ((1 << store.tag_shift) - 1)
    number = (place & ((1 << store.number_bits) - 1)) - 1
    return ((place >> store.number_bits) << store.arena_bits) | number


@loop
def read_key(store: Store, index: int, target: int) -> int:
    """Copies the key of a state; returns its address."""
    source = store.rows + store.key_size * index
    last = store.key_words - 1
    for k in range(last):
        store_word(target + 8 * k, load_loose(source + 8 * k))
    store_word(target + 8 * last, load_loose(source + 8 * last) & store.key_mask)
    return target


@loop
def write(store, index, row):  # type: ignore[no-untyped-def]
    """Stores a row, or a key. What is written after a key belongs to states that are stored later."""
    if store.key_words != 0:
        target = store.rows + store.key_size * index
        for k in range(store.key_words):
            store_loose(target + 8 * k, load_word(row + 8 * k))
    else:
        target = store.rows + 8 * store.word_count * index
        for k in range(store.word_count):
            store_word(target + 8 * k, load_word(row + 8 * k))


@loop
def _has(store, index, row):  # type: ignore[no-untyped-def]
    """Whether the state has the row, or the key."""
    if store.key_words == 0:
        return same_row(store.rows + 8 * store.word_count * index, row, store.word_count)
    source = store.rows + store.key_size * index
    last = store.key_words - 1
    for k in range(last):
        if load_loose(source + 8 * k) != load_word(row + 8 * k):
            return False
    return load_loose(source + 8 * last) & store.key_mask == load_word(row + 8 * last)


@loop
def _print_of(store, index):  # type: ignore[no-untyped-def]
    """The fingerprint of a stored row, or key."""
    if store.key_words == 0:
        return fingerprint(store.rows + 8 * store.word_count * index, store.word_count)
    source = store.rows + store.key_size * index
    h = _SEED
    for k in range(store.key_words - 1):
        h = _absorb(h, load_loose(source + 8 * k))
    return _finish(_absorb(h, load_loose(source + 8 * (store.key_words - 1)) & store.key_mask))


@loop
def find_or_add(store: Store, row: int, print_: int, fresh: int, parent: int) -> int:
    """The index of the row, or of the key at the address; a new one becomes state `fresh` with the parent.

    The caller owns the index `fresh` and must use another one once it is taken.
    """
    entry = _entry(store, print_, fresh)
    position = home(print_, store.slot_count)
    written = False
    while True:
        slot = store.table + 4 * position
        found = load_shared_half(slot)
        if found == 0:
            if not written:
                write(store, fresh, row)
                if store.parents != 0:
                    store_half(store.parents + 4 * fresh, parent)
                written = True
            found = claim_half(slot, entry)
            if found == 0:
                return fresh
        if (found ^ entry) >> store.tag_shift == 0:
            index = _index(store, found)
            if _has(store, index, row):
                return index
        position += 1
        if position == store.slot_count:
            position = 0


@loop
def enter_again(store: Store, first: int, last: int, is_shared: bool) -> None:
    """Puts states first..last-1, all different, into a new table, in which others may do the same."""
    for index in range(first, last):
        if index + AHEAD < last:
            expect(store.table, store.slot_count, _print_of(store, index + AHEAD))
        print_ = _print_of(store, index)
        entry = _entry(store, print_, index)
        position = home(print_, store.slot_count)
        while True:
            slot = store.table + 4 * position
            if load_shared_half(slot) == 0:
                if not is_shared:
                    store_half(slot, entry)
                    break
                if claim_half(slot, entry) == 0:
                    break
            position += 1
            if position == store.slot_count:
                position = 0
