"""Growing hash tables for native loops: sequences with numbers, and maps from number to number.

A native loop asks for room first; if a table is full, the loop returns to its driver, which enlarges the
table (`make_room`) and calls the loop again. Pools are reserved once and never move. Loops know all memory
by address, since passing tuples of arrays would cost more than the work itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.native.loop import loop
from veristream.native.primitives import set_word, word_at
from veristream.search.memory import Reserve, reserve

Words = NDArray[np.int64]

COUNT, LIMIT, FULL, TABLE_COUNTS = range(4)
MISSING = -1
_FIRST_SLOTS = 1 << 10
_K1, _K2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S32, _S29 = np.uint64(32), np.uint64(29)


class Sequences(NamedTuple):
    """Addresses: of the items of all sequences, of where each begins, of its hash, and of the slots, which
    are 0 or a sequence's number plus 1."""

    pool: int
    pool_size: int
    first: int
    first_size: int
    prints: int
    slots: int
    slot_count: int
    counts: int


class Map(NamedTuple):
    """Addresses: of keys, 0 in a free slot, else the key plus 1, and of values."""

    keys: int
    values: int
    slot_count: int
    counts: int


@loop
def mix(number):  # type: ignore[no-untyped-def]
    """A number with its bits mixed, for hashing."""
    h = np.uint64(number) * _K1
    h ^= h >> _S32
    h *= _K2
    h ^= h >> _S29
    return np.int64(h)


@loop
def make_set(items, size):  # type: ignore[no-untyped-def]
    """Sorts the words at the address and removes duplicates; returns how many are left.

    A heap sort, since Numba's own sort takes seconds to compile.
    """
    for last in range(size // 2 + size - 1, 0, -1):
        top = max(0, last - size)  # first build a heap, then move its greatest item to its end
        end = min(last, size)
        if last < size:
            greatest = word_at(items, 0)
            set_word(items, 0, word_at(items, last))
            set_word(items, last, greatest)
        moved = word_at(items, top)
        child = 2 * top + 1
        while child < end:
            if child + 1 < end and word_at(items, child + 1) > word_at(items, child):
                child += 1
            if word_at(items, child) <= moved:
                break
            set_word(items, top, word_at(items, child))
            top, child = child, 2 * child + 1
        set_word(items, top, moved)
    left = 0
    for k in range(size):
        if k == 0 or word_at(items, k) != word_at(items, left - 1):
            set_word(items, left, word_at(items, k))
            left += 1
    return left


@loop
def has_room(counts, wanted):  # type: ignore[no-untyped-def]
    """Whether that many more entries fit before the table must grow."""
    return word_at(counts, COUNT) + wanted <= word_at(counts, LIMIT)


@loop
def _same_items(sequences, number, items, size):  # type: ignore[no-untyped-def]
    start = word_at(sequences.first, number)
    if word_at(sequences.first, number + 1) - start != size:
        return False
    for k in range(size):
        if word_at(sequences.pool, start + k) != word_at(items, k):
            return False
    return True


@loop
def _print(items, size):  # type: ignore[no-untyped-def]
    print_ = mix(size)
    for k in range(size):
        print_ = mix(print_ ^ word_at(items, k))
    return print_


@loop
def _find(sequences, print_, items, size):  # type: ignore[no-untyped-def]
    """The slot of the sequence, or the free slot for it; and its number, or MISSING."""
    mask = sequences.slot_count - 1
    position = print_ & mask
    while True:
        found = word_at(sequences.slots, position) - 1
        if found < 0:
            return position, MISSING
        if word_at(sequences.prints, found) == print_ and _same_items(sequences, found, items, size):
            return position, found
        position = (position + 1) & mask


@loop
def look_up(sequences, items, size):  # type: ignore[no-untyped-def]
    """The number of the sequence, or MISSING; several threads may do this at the same time."""
    return _find(sequences, _print(items, size), items, size)[1]


@loop
def intern(sequences: Sequences, items: int, size: int) -> int:
    """The number of the sequence of `size` words at the address `items`, which is added if it is new.

    The caller must have asked for room. Returns MISSING if the pool itself is full.
    """
    print_ = _print(items, size)
    position, found = _find(sequences, print_, items, size)
    if found != MISSING:
        return found
    number = word_at(sequences.counts, COUNT)
    start = word_at(sequences.first, number)
    if start + size > sequences.pool_size or number + 1 >= sequences.first_size:
        set_word(sequences.counts, FULL, 1)
        return MISSING
    for k in range(size):
        set_word(sequences.pool, start + k, word_at(items, k))
    set_word(sequences.first, number + 1, start + size)
    set_word(sequences.prints, number, print_)
    set_word(sequences.slots, position, number + 1)
    set_word(sequences.counts, COUNT, number + 1)
    return number


@loop
def _enter_prints(sequences: Sequences) -> None:
    """Enters all sequences into empty slots."""
    mask = sequences.slot_count - 1
    for number in range(word_at(sequences.counts, COUNT)):
        position = word_at(sequences.prints, number) & mask
        while word_at(sequences.slots, position) != 0:
            position = (position + 1) & mask
        set_word(sequences.slots, position, number + 1)


@loop
def place_of(map_, key):  # type: ignore[no-untyped-def]
    """The slot of the key, or the free slot for it."""
    mask = map_.slot_count - 1
    position = mix(key) & mask
    while True:
        found = word_at(map_.keys, position)
        if found == 0 or found == key + 1:
            return position
        position = (position + 1) & mask


@loop
def put(map_, place, key, value):  # type: ignore[no-untyped-def]
    """Adds the key in the free slot that `place_of` returned."""
    set_word(map_.keys, place, key + 1)
    set_word(map_.values, place, value)
    set_word(map_.counts, COUNT, word_at(map_.counts, COUNT) + 1)


@loop
def _enter_keys(old: Map, new: Map) -> None:
    for k in range(old.slot_count):
        found = word_at(old.keys, k)
        if found != 0:
            place = place_of(new, found - 1)
            set_word(new.keys, place, found)
            set_word(new.values, place, word_at(old.values, k))


def address_of(words: Words) -> int:
    """The address of an array, which its owner must keep alive."""
    return int(words.ctypes.data)


def _counts() -> Words:
    counts = np.zeros(TABLE_COUNTS, np.int64)
    counts[LIMIT] = _FIRST_SLOTS // 2
    return counts


def _grown(slots: int, wanted: int) -> int:
    """The table size, by doubling, at which that many entries fill at most half of the table."""
    while wanted > slots // 2:
        slots *= 2
    return slots


class SequenceTable:
    """Owns a table of sequences; `native` is its form for loops, and changes with `make_room`."""

    def __init__(self, byte_max: int) -> None:
        self._pool, self._first, self._prints = (reserve(byte_max // part) for part in (2, 4, 4))
        self._slots: Reserve = reserve(8 * _FIRST_SLOTS)
        self._counts = _counts()
        self.native = Sequences(
            self._pool.address,
            self._pool.words.size,
            self._first.address,
            self._first.words.size,
            self._prints.address,
            self._slots.address,
            _FIRST_SLOTS,
            address_of(self._counts),
        )

    def __len__(self) -> int:
        return int(self._counts[COUNT])

    def __getitem__(self, number: int) -> Words:
        """The items of a sequence."""
        first, last = self._first.words[number : number + 2]
        return self._pool.words[first:last].copy()

    def add(self, items: Words) -> int:
        """The number of the sequence."""
        self.make_room(1)
        return int(intern(self.native, address_of(items), items.size))

    @property
    def is_full(self) -> bool:
        """Whether a sequence did not fit."""
        return bool(self._counts[FULL])

    @property
    def byte_count(self) -> int:
        """Memory in use."""
        return 8 * int(self._first.words[len(self)]) + 16 * len(self) + 8 * self.native.slot_count

    def make_room(self, wanted: int) -> None:
        """Makes room for that many more sequences."""
        size = _grown(self.native.slot_count, len(self) + wanted)
        if size > self.native.slot_count:
            self._slots = reserve(8 * size)
            self.native = self.native._replace(slots=self._slots.address, slot_count=size)
            self._counts[LIMIT] = size // 2
            _enter_prints(self.native)


class MapTable:
    """Owns a map; `native` is its form for loops, and changes with `make_room`."""

    def __init__(self) -> None:
        self._counts = _counts()
        self._keys, self._values = reserve(8 * _FIRST_SLOTS), reserve(8 * _FIRST_SLOTS)
        self.native = self._native(_FIRST_SLOTS)

    def _native(self, slot_count: int) -> Map:
        return Map(self._keys.address, self._values.address, slot_count, address_of(self._counts))

    def __len__(self) -> int:
        return int(self._counts[COUNT])

    @property
    def byte_count(self) -> int:
        """Memory in use."""
        return 16 * self.native.slot_count

    def make_room(self, wanted: int) -> None:
        """Makes room for that many more keys."""
        old, kept = self.native, (self._keys, self._values)
        size = _grown(old.slot_count, len(self) + wanted)
        if size > old.slot_count:
            self._keys, self._values = reserve(8 * size), reserve(8 * size)
            self._counts[LIMIT] = size // 2
            self.native = self._native(size)
            _enter_keys(old, self.native)
            del kept
