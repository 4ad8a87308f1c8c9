"""The fields of packed rows: their dictionaries, and how wide they are in a key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristream.search.reach.packing import (
    COUNT,
    FIELD,
    LIMIT,
    MASK,
    OFFSET,
    SHIFT,
    SLOTS,
    TABLE,
    TAG_SHIFT,
    WORDS,
    move_words,
)

WORD_BITS = 64
FIRST_LIMIT = 16
FIRST_BITS = 12


@dataclass(slots=True)
class Dictionary:
    """The words that occurred at one position of a row, and a table to find their numbers."""

    words: NDArray[np.int64]
    table: NDArray[np.uint32]

    @property
    def byte_count(self) -> int:
        """Memory in use."""
        return self.words.nbytes + self.table.nbytes


def _empty(limit: int) -> Dictionary:
    return Dictionary(np.zeros(limit, np.int64), np.zeros(limit + limit // 2, np.uint32))


class Fields:
    """The fields of rows of `width` words; `header` is what loops know of them."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.header = np.zeros((width, FIELD), np.int64)
        self.dictionaries = [_empty(FIRST_LIMIT) for _ in range(width)]
        self.bits = [max(2, min(FIRST_BITS, WORD_BITS // width))] * width
        self.key_words, self.last_bits = 0, 0
        for position in range(width):
            self._tell(position)
        self._place()

    @property
    def address(self) -> int:
        """The address of the header."""
        return int(self.header.ctypes.data)

    @property
    def byte_count(self) -> int:
        """Memory in use by the dictionaries."""
        return sum(dictionary.byte_count for dictionary in self.dictionaries)

    @property
    def key_size(self) -> int:
        """Bytes of a key."""
        return 8 * (self.key_words - 1) + -(-self.last_bits // 8)

    @property
    def is_full(self) -> bool:
        """Whether some field has no room for another word."""
        return bool((self.header[:, COUNT] >= self.header[:, LIMIT]).any())

    def grow(self) -> None:
        """Makes room for more words in every field that is full or nearly so; keys have to be made again if
        the fields of the key have changed, too."""
        counts = np.minimum(self.header[:, COUNT], self.header[:, LIMIT])
        self.header[:, COUNT] = counts
        if any(count >= 1 << bits for count, bits in zip(counts.tolist(), self.bits, strict=True)):
            # Each field is made wide enough for half as many words again, so that this is rare.
            wanted = [(3 * count // 2).bit_length() for count in counts.tolist()]
            self.bits = [max(pair) for pair in zip(self.bits, wanted, strict=True)]
            self._place()
        for position, count in enumerate(counts.tolist()):
            if 4 * count >= 3 * len(self.dictionaries[position].words):
                self._enlarge(position, 2 * count)
            self._tell(position)

    def _place(self) -> None:
        """Gives each field its place in the key, wide ones first; a field is in one word."""
        used: list[int] = []
        for position in sorted(range(self.width), key=lambda k: -self.bits[k]):
            bits = self.bits[position]
            word = next((k for k, taken in enumerate(used) if taken + bits <= WORD_BITS), len(used))
            if word == len(used):
                used.append(0)
            self.header[position, [OFFSET, SHIFT, MASK]] = 8 * word, used[word], (1 << bits) - 1
            used[word] += bits
        if len(used) <= self.key_words:  # keys never become shorter
            used += [0] * (self.key_words - len(used))
            used[-1] = max(used[-1], self.last_bits)
        self.key_words, self.last_bits = len(used), used[-1]

    def _enlarge(self, position: int, limit: int) -> None:
        """Replaces a dictionary by one with room for `limit` words."""
        field, old = self.header[position], self.dictionaries[position]
        count, below = int(field[COUNT]), (1 << int(field[TAG_SHIFT])) - 1
        new = self.dictionaries[position] = _empty(limit)
        new.words[:count] = old.words[:count]
        self._tell(position)
        moved = field.copy()
        moved[MASK] = below
        move_words(moved, old.table)

    def _tell(self, position: int) -> None:
        """Tells loops about a dictionary."""
        field, dictionary = self.header[position], self.dictionaries[position]
        slots = dictionary.table.size
        limit = min(len(dictionary.words), 1 << self.bits[position])
        addresses = dictionary.table.ctypes.data, dictionary.words.ctypes.data
        field[[TABLE, WORDS, SLOTS, LIMIT, TAG_SHIFT]] = *addresses, slots, limit, slots.bit_length()
