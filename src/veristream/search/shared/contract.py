"""What a worker asks of the part that it owns, whatever is explored: states, products or zones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

from veristream.kernel.layout import Row

Value = dict[str, Any]
"""What travels as JSON between driver and parts."""


class SharedPart(Protocol):
    """One part of a graph that several workers explore together, level by level."""

    number: int
    count: int
    word_count: int

    def seed(self, initial: Row) -> bool:
        """Takes the initial state if it belongs here."""

    def work(self) -> int:
        """Expands more of the level; returns `partition`'s QUANTUM, LEVEL or FULL_OUTBOX.

        Raises OutOfMemoryError and DiskFullError.
        """

    def outbox(self, part: int) -> bytes:
        """Takes the records that wait for another part."""

    def take_in(self, sender: int, records: bytes) -> None:
        """Takes the records of another part; raises OutOfMemoryError and DiskFullError."""

    def end_level(self) -> int:
        """Ends the level; gives how much there is to do in the next one."""

    def report(self) -> Value:
        """What the driver is told at the end of a level."""

    def tell(self, index: int) -> Value:
        """What the driver is told of one state."""

    def hear(self, question: Value) -> Value:
        """Does something that the driver says to all parts between two levels, and answers."""

    def accept(self, count: int, blob: bytes) -> None:
        """Takes states that the driver hands over, in the order in which they were found."""

    def go_on(self, frontier: int, told: Value) -> None:
        """All was handed over: the states from `frontier` on are the level to expand."""

    def save(self, folder: str, level: int) -> Value:
        """Writes what is in no checkpoint yet; raises OSError."""

    def load(self, folder: str, saved: Value) -> None:
        """Reads what was saved; raises OutOfMemoryError, DiskFullError and OSError."""


@runtime_checkable
class Giving(Protocol):
    """A part that can give the driver what is left of it."""

    def share(self) -> Iterator[bytes]:
        """Arrays, as the driver knows them."""
