"""The slots of a visited set: how many there are, and when there are too few."""

from __future__ import annotations

from dataclasses import dataclass, field

from veristream.search.memory import OutOfMemoryError, Reserve, reserve

LOAD_MAX = 0.85
SLOTS_FIRST = 1 << 12
SLOTS_MAX = (1 << 31) - 1
SLOT_BYTES = 4
WORD_BYTES = 8


@dataclass(slots=True)
class Table:
    """The slots of a visited set. A larger table is made from the states themselves, so that the old one is
    freed first, unless somebody else keeps its memory."""

    slot_count: int = SLOTS_FIRST
    memory: Reserve = field(default_factory=lambda: reserve(WORD_BYTES * (SLOTS_FIRST + 2)))
    slot_size: int = SLOT_BYTES

    @property
    def address(self) -> int:
        """The address of the first slot."""
        return self.memory.address

    @property
    def byte_count(self) -> int:
        """Memory in use."""
        return self.slot_size * self.slot_count

    def limit(self, in_flight: int) -> int:
        """How many states it may hold when loops stop, if so many are added until they do."""
        return _limit(self.slot_count, in_flight)

    def wanted(self, count: int, in_flight: int) -> int:
        """How many slots so many states need; raises OutOfMemoryError if a table cannot have them.

        Small tables grow fast, large ones in smaller steps, so that less of a large table stays empty.
        """
        slots = self.slot_count
        while count > _limit(slots, in_flight):
            slots = slots * 4 if slots < 1 << 20 else slots * 13 // 10
        if slots > SLOTS_MAX:
            raise OutOfMemoryError
        return slots

    def resize(self, slots: int) -> None:
        """Replaces the table by an empty one."""
        self.memory = reserve(0)
        self.memory = reserve(self.slot_size * (slots + 1) + WORD_BYTES)  # loops may read a word there
        self.slot_count = slots


def _limit(slots: int, in_flight: int) -> int:
    return min(int(LOAD_MAX * slots), slots - slots // 32 - in_flight)
