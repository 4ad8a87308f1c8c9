"""An index from the numbers of a sequence to records of the log: 28 bytes for each batch, in arrays."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator


class Ranges:
    """Runs of numbers (sequences or offsets), sorted; there are none below `low_water`."""

    __slots__ = ("_counts", "_firsts", "_positions", "_sizes", "end", "low_water")

    def __init__(self) -> None:
        self._firsts = array("Q")
        self._counts = array("Q")
        self._positions = array("Q")
        self._sizes = array("I")
        self.low_water = 0
        self.end = 0

    def add(self, first: int, count: int, position: int, size_bytes: int = 0) -> bool:
        """Adds a run; returns False, and adds nothing, if one with this first number exists."""
        place = bisect_left(self._firsts, first)
        if place < len(self._firsts) and self._firsts[place] == first:
            return False
        self._firsts.insert(place, first)
        self._counts.insert(place, count)
        self._positions.insert(place, position)
        self._sizes.insert(place, size_bytes)
        self.end = max(self.end, first + count)
        return True

    def position_of(self, first: int) -> int | None:
        """Returns the position of the run that begins with a number, or None."""
        place = bisect_left(self._firsts, first)
        if place < len(self._firsts) and self._firsts[place] == first:
            return self._positions[place]
        return None

    def between(self, first: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yields the runs that begin from a number up to another: first, position and size of each."""
        for place in range(bisect_left(self._firsts, first), bisect_left(self._firsts, end)):
            yield self._firsts[place], self._positions[place], self._sizes[place]

    def positions(self) -> Iterator[int]:
        """Yields the positions of all runs, in the order of their numbers."""
        return iter(self._positions)

    def replace(self, first: int, position: int, size_bytes: int) -> None:
        """Changes the record of the run that begins with a number."""
        place = bisect_left(self._firsts, first)
        self._positions[place], self._sizes[place] = position, size_bytes

    def remove(self, dead: Collection[int], *, released: bool = False) -> None:
        """Removes the runs whose records are at these positions.

        With `released`, raises the mark past those that were the first ones.
        """
        kept = [place for place, position in enumerate(self._positions) if position not in dead]
        if len(kept) < len(self._positions):
            oldest = kept[0] if kept else len(self._positions)
            if released and oldest:
                self.low_water = max(self.low_water, self._firsts[oldest - 1] + self._counts[oldest - 1])
            for name in ("_firsts", "_counts", "_positions", "_sizes"):
                values = getattr(self, name)
                setattr(self, name, array(values.typecode, [values[place] for place in kept]))

    def covering(self, number: int) -> Iterator[int]:
        """Yields the positions of the run that contains a number, and of all later runs."""
        place = bisect_right(self._firsts, number) - 1
        if place < 0 or number >= self._firsts[place] + self._counts[place]:
            place += 1
        return self._positions_from(place)

    def _positions_from(self, place: int) -> Iterator[int]:
        return (self._positions[each] for each in range(place, len(self._positions)))

    def end_before(self, position: int) -> int:
        """Returns the end of the numbers before a position of the log; for runs added in order."""
        place = bisect_left(self._positions, position)
        return self.low_water if place == 0 else self._firsts[place - 1] + self._counts[place - 1]

    @property
    def oldest_position(self) -> int:
        """The first position that is still needed; past all positions if there are no runs."""
        return min(self._positions, default=sys.maxsize)

    def extend(self, low_water: int, end: int) -> None:
        """Applies a checkpoint."""
        self.end = max(self.end, end)
        if low_water > self.low_water:
            self.raise_low_water(low_water)

    def raise_low_water(self, low_water: int) -> None:
        """Removes the runs that lie wholly below the mark."""
        self.low_water = low_water
        place = 0
        while place < len(self._firsts) and self._firsts[place] + self._counts[place] <= low_water:
            place += 1
        self._drop(place)

    def forget_before(self, position: int) -> None:
        """Removes the runs whose records are gone, and raises the mark to the first that is left."""
        gone = [place for place, found in enumerate(self._positions) if found < position]
        if not gone:
            return
        place = gone[-1] + 1
        last_gone = self._firsts[place - 1] + self._counts[place - 1]
        self._drop(place)
        self.low_water = max(self.low_water, last_gone)

    def _drop(self, count: int) -> None:
        del self._firsts[:count]
        del self._counts[:count]
        del self._positions[:count]
        del self._sizes[:count]
