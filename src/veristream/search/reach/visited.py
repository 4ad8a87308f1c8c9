"""The visited set: rows in arenas, found through one hash table that workers share.

A state's index is its arena's base plus its number within the arena; every worker appends to an arena
of its own. A slot of the table is 0 or holds 32 bits of the row's fingerprint above the state's index
plus 1. Whole rows are compared, so two different states are never confused. A worker writes the row
before it claims the slot, so every reader of the slot can read the row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from veristream.native.loop import loop
from veristream.native.primitives import (
    call_1,
    claim,
    load_shared,
    load_word,
    prefetch,
    store_half,
    store_word,
)

ROOT = 0xFFFFFFFF
"""The parent of an initial state."""

INDEX_BITS = 32
_SEED = np.uint64(0x9E3779B97F4A7C15)
_K1 = np.uint64(0xBF58476D1CE4E5B9)
_K2 = np.uint64(0x94D049BB133111EB)
_S32, _S29, _S31 = np.uint64(32), np.uint64(29), np.uint64(31)


class Store(NamedTuple):
    """Addresses of the table, the rows and the parents; the table has less than 2**31 slots."""

    table: int
    slot_count: int
    rows: int
    parents: int
    word_count: int


@loop
def fingerprint(row: int, word_count: int) -> int:
    """64 bits of the row at the address; the same on every machine and in every run."""
    h = _SEED
    for k in range(word_count):
        h = (h ^ np.uint64(load_word(row + 8 * k))) * _K1
        h ^= h >> _S32
    h *= _K2
    h ^= h >> _S29
    return np.int64(h)  # type: ignore[return-value]


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
    prefetch(table + 8 * home(print_, slot_count))


@loop
def find_or_add(store: Store, row: int, print_: int, fresh: int, parent: int) -> int:
    """The index of the row; a new row becomes state `fresh` with the given parent.

    The caller owns the index `fresh` and must use another one once it is taken.
    """
    tag = np.int64(np.uint64(print_) >> _S32)
    entry = np.int64((np.uint64(tag) << _S32) | np.uint64(fresh + 1))
    position = home(print_, store.slot_count)
    written = False
    while True:
        slot = store.table + 8 * position
        found = load_shared(slot)
        if found == 0:
            if not written:
                target = store.rows + 8 * store.word_count * fresh
                for k in range(store.word_count):
                    store_word(target + 8 * k, load_word(row + 8 * k))
                store_half(store.parents + 4 * fresh, parent)
                written = True
            found = claim(slot, entry)
            if found == 0:
                return fresh
        if np.int64(np.uint64(found) >> _S32) == tag:
            index = (found & 0xFFFFFFFF) - 1
            if same_row(store.rows + 8 * store.word_count * index, row, store.word_count):
                return index
        position += 1
        if position == store.slot_count:
            position = 0


@loop
def count_orbits(orbit: int, store: Store, first: int, last: int) -> int:
    """How many states the canonical states first..last-1 represent."""
    total = 0
    for index in range(first, last):
        total += call_1(orbit, store.rows + 8 * store.word_count * index)
    return total


@loop
def enter_again(store: Store, first: int, last: int) -> None:
    """Puts states first..last-1, all different, into a new table."""
    for index in range(first, last):
        row = store.rows + 8 * store.word_count * index
        print_ = fingerprint(row, store.word_count)
        tag = np.int64(np.uint64(print_) >> _S32)
        entry = np.int64((np.uint64(tag) << _S32) | np.uint64(index + 1))
        position = home(print_, store.slot_count)
        while claim(store.table + 8 * position, entry) != 0:
            position += 1
            if position == store.slot_count:
                position = 0
