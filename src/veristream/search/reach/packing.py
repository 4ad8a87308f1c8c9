"""Rows of several words as short keys, without loss: each word is replaced by its number in a dictionary.

The rows of a model differ in combinations of words; each word alone has few values. So every position of a
row has a *field*: a dictionary of the words that occurred there, and room in the key for the number of one.
A step changes few words, so the key of a successor is that of its source with few numbers replaced. Fields
are as wide as their dictionaries need. Where one is full, the loop stops before the state that needs more
room, and the driver makes wider keys of all states.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from veristream.native.loop import loop
from veristream.native.primitives import (
    call_1,
    claim_half,
    fetch_add,
    half_at,
    load_loose,
    load_shared_half,
    load_word,
    set_half,
    set_word,
    store_loose,
    store_word,
    word_at,
)
from veristream.search.reach.visited import Store, high_half, home, mix, read_key

# What loops know of a field: its dictionary (table, words, how many there are and may be), and its place in
# the key. A slot of the table is 0, or a number plus 1 below as many bits of the word's fingerprint as fit.
TABLE, SLOTS, WORDS, TAG_SHIFT, COUNT, LIMIT, OFFSET, SHIFT, MASK, FIELD = range(10)

FULL = -1


@loop
def _number(field, word):  # type: ignore[no-untyped-def]
    """The number of a word, which is added if it is new; or FULL."""
    print_ = mix(word)
    slots, table, words = word_at(field, SLOTS), word_at(field, TABLE), word_at(field, WORDS)
    shift = word_at(field, TAG_SHIFT)
    tag = (high_half(print_) >> shift) << shift
    position = home(print_, slots)
    fresh = FULL
    while True:
        slot = table + 4 * position
        found = load_shared_half(slot)
        if found == 0:
            if fresh == FULL:
                if word_at(field, COUNT) >= word_at(field, LIMIT):
                    return FULL
                fresh = fetch_add(field + 8 * COUNT, 1)
                if fresh >= word_at(field, LIMIT):
                    return FULL
                set_word(words, fresh, word)
            found = claim_half(slot, tag | (fresh + 1))
            if found == 0:
                return fresh
        if (found ^ tag) >> shift == 0:
            known = (found & ((1 << shift) - 1)) - 1
            if word_at(words, known) == word:
                return known  # another worker was faster: a number that was taken for it stays unused
        position += 1
        if position == slots:
            position = 0


@loop
def move_words(field: NDArray[np.int64], old: NDArray[np.uint32]) -> None:
    """Puts the words of a smaller table into the empty one of the field."""
    at = field.ctypes.data
    slots, table, words = word_at(at, SLOTS), word_at(at, TABLE), word_at(at, WORDS)
    shift = word_at(at, TAG_SHIFT)
    below = field[MASK]  # here: of the numbers in old slots
    for k in range(old.size):
        if old[k] != 0:
            number = (np.int64(old[k]) & below) - 1
            print_ = mix(word_at(words, number))
            position = home(print_, slots)
            while half_at(table, position) != 0:
                position += 1
                if position == slots:
                    position = 0
            set_half(table, position, ((high_half(print_) >> shift) << shift) | (number + 1))


@loop
def pack(packing, width, key_words, source, row, key):  # type: ignore[no-untyped-def]
    """Writes the key of a row; returns whether all fields had room.

    `source` is the address of a row and, after it, its key, which the row's key is made from; or 0.
    """
    for k in range(key_words):
        set_word(key, k, 0 if source == 0 else word_at(source + 8 * width, k))
    for k in range(width):
        word = word_at(row, k)
        if source == 0 or word != word_at(source, k):
            field = packing + 8 * FIELD * k
            number = _number(field, word)
            if number == FULL:
                return False
            place = key + word_at(field, OFFSET)
            shift = word_at(field, SHIFT)
            others = load_word(place) & ~(word_at(field, MASK) << shift)
            store_word(place, others | (number << shift))
    return True


@loop
def unpack(store: Store, index: int, scratch: int) -> int:
    """The address of a state's row. If it is not stored as it is, that is the scratch, with the key after
    the row."""
    # Like the addresses in a store: of these and an unsigned one, Numba would make doubles.
    scratch = np.int64(scratch)  # type: ignore[assignment]
    width = store.word_count
    if store.key_words == 0:
        return store.rows + 8 * width * index
    if store.packing == 0:
        return read_key(store, index, scratch)
    key = read_key(store, index, scratch + 8 * width)
    for k in range(width):
        field = store.packing + 8 * FIELD * k
        number = (load_word(key + word_at(field, OFFSET)) >> word_at(field, SHIFT)) & word_at(field, MASK)
        set_word(scratch, k, word_at(word_at(field, WORDS), number))
    return scratch


@loop
def repack(
    old: Store,
    new: Store,
    was: NDArray[np.int64],
    scratch: NDArray[np.int64],
    first: int,
    last: int,
) -> None:
    """Makes new keys of states first..last-1, in the same memory; `was` are the old fields. No key becomes
    shorter, and states are taken from the last one on, so old keys are read before they are overwritten."""
    width = old.word_count
    before, after = scratch.ctypes.data, scratch.ctypes.data + 8 * width
    for index in range(last - 1, first - 1, -1):
        read_key(old, index, before)
        for k in range(new.key_words):
            set_word(after, k, 0)
        for k in range(width):
            field = was.ctypes.data + 8 * FIELD * k
            number = load_word(before + word_at(field, OFFSET)) >> word_at(field, SHIFT)
            field_now = new.packing + 8 * FIELD * k
            place = after + word_at(field_now, OFFSET)
            number = (number & word_at(field, MASK)) << word_at(field_now, SHIFT)
            store_word(place, load_word(place) | number)
        target = new.rows + new.key_size * index
        for k in range(new.key_words - 1):
            store_loose(target + 8 * k, word_at(after, k))
        # The last word may have fewer bytes in memory than in the scratch; what follows stays.
        place = target + 8 * (new.key_words - 1)
        rest = load_loose(place) & ~new.key_mask
        store_loose(place, rest | word_at(after, new.key_words - 1))


@loop
def read_row(store: Store, index: int, scratch: NDArray[np.int64], row: NDArray[np.int64]) -> None:
    """Copies the row of a state."""
    source = unpack(store, index, scratch.ctypes.data)
    for k in range(store.word_count):
        row[k] = load_word(source + 8 * k)


@loop
def count_orbits(orbit: int, store: Store, scratch: NDArray[np.int64], first: int, last: int) -> int:
    """How many states the canonical states first..last-1 represent."""
    total = 0
    for index in range(first, last):
        total += call_1(orbit, unpack(store, index, scratch.ctypes.data))
    return total
