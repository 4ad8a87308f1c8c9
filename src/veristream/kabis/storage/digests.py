"""A table from digests to positions in the log: 24 bytes a slot, and at most three slots for a digest.

It compares the first 16 bytes of digests. To make two headers that agree in them takes 2^64 hashes, and
would only hide the producer's own batch.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator

_SLOTS_MIN = 64
_HALF_BYTES = 8


class DigestTable:
    """A hash table with linear probing in arrays; digests are uniform, so their bytes are the hash."""

    __slots__ = ("_count", "_highs", "_lows", "_positions", "_slots")

    def __init__(self, slots: int = _SLOTS_MIN) -> None:
        self._slots = slots
        self._count = 0
        zeros = bytes(_HALF_BYTES * slots)
        self._highs = array("Q", zeros)
        self._lows = array("Q", zeros)
        self._positions = array("Q", zeros)  # plus one; 0 is an empty slot

    def __len__(self) -> int:
        return self._count

    def get(self, digest: bytes) -> int | None:
        """Returns the position of a digest, or None."""
        found = self._positions[self._find(*_split(digest))]
        return found - 1 if found else None

    def __contains__(self, digest: bytes) -> bool:
        return self._positions[self._find(*_split(digest))] != 0

    def put(self, digest: bytes, position: int) -> None:
        """Sets the position of a digest."""
        self._put(*_split(digest), position)

    def _put(self, high: int, low: int, position: int) -> None:
        slot = self._find(high, low)
        if not self._positions[slot]:
            if 4 * (self._count + 1) > 3 * self._slots:
                self._resize(2 * self._slots, ())
                slot = self._find(high, low)
            self._count += 1
        self._highs[slot], self._lows[slot], self._positions[slot] = high, low, position + 1

    def _find(self, high: int, low: int) -> int:
        """Returns the slot of a digest, or the empty one where it belongs."""
        positions, highs, lows, mask = self._positions, self._highs, self._lows, self._slots - 1
        slot = low & mask
        while positions[slot] and (highs[slot] != high or lows[slot] != low):
            slot = (slot + 1) & mask
        return slot

    def remove(self, dead: Collection[int]) -> None:
        """Removes the digests of records at these positions."""
        if dead:
            kept = sum(position not in dead for _, _, position in self._items())
            slots = _SLOTS_MIN
            while 2 * kept > slots:
                slots *= 2
            self._resize(slots, dead)

    def _resize(self, slots: int, dead: Collection[int]) -> None:
        fresh = DigestTable(slots)
        for high, low, position in self._items():
            if position not in dead:
                fresh._put(high, low, position)
        for name in self.__slots__:
            setattr(self, name, getattr(fresh, name))

    def _items(self) -> Iterator[tuple[int, int, int]]:
        for high, low, position in zip(self._highs, self._lows, self._positions, strict=True):
            if position:
                yield high, low, position - 1

    def positions(self) -> Iterator[int]:
        """Yields the positions of all digests, in no particular order."""
        return (position for _, _, position in self._items())


def _split(digest: bytes) -> tuple[int, int]:
    high, low = digest[:_HALF_BYTES], digest[_HALF_BYTES : 2 * _HALF_BYTES]
    return int.from_bytes(high, "big"), int.from_bytes(low, "big")
