"""The interface between a worker and the part that it owns, whether of states, products or zones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from veristream.kernel.layout import Row
from veristream.search.shared.messages import (
    Answer,
    FoundState,
    LevelReport,
    LookReport,
    Question,
    SavedPart,
    Totals,
)


class SharedPart(Protocol):
    """One part of a graph that several workers explore together, level by level."""

    number: int
    count: int
    word_count: int

    def seed(self, initial: Row) -> bool:
        """Takes the initial state if it belongs to this part; returns whether it does."""

    def work(self) -> int:
        """Expands more of the level; returns `partition`'s QUANTUM, LEVEL or FULL_OUTBOX.

        Raises OutOfMemoryError and DiskFullError.
        """

    def outbox(self, part: int) -> bytes:
        """Removes and returns the records for another part."""

    def take_in(self, sender: int, records: bytes) -> None:
        """Adds the records of another part; raises OutOfMemoryError and DiskFullError."""

    def end_level(self) -> int:
        """Ends the level; returns how much there is to do in the next one."""

    def report(self) -> LevelReport | LookReport:
        """Returns what the driver needs to know at the end of a level."""

    def describe(self, index: int) -> FoundState:
        """Returns the row of a state and how it was found."""

    def answer(self, question: Question) -> Answer:
        """Does what the driver asks of all parts between two levels."""

    def save(self, folder: str, level: int) -> SavedPart:
        """Writes what is in no checkpoint yet; raises OSError."""

    def load(self, folder: str, saved: SavedPart) -> None:
        """Reads what was saved; raises OutOfMemoryError, DiskFullError and OSError."""


@runtime_checkable
class StateReceiver(Protocol):
    """A part that can begin with states that the driver has found."""

    def accept(self, count: int, blob: bytes) -> None:
        """Takes states from the driver, in the order in which they were found.

        Raises OutOfMemoryError and DiskFullError.
        """

    def take_over(self, frontier: int, totals: Totals) -> None:
        """Makes the states from `frontier` on the level to expand, once all have been accepted."""


@runtime_checkable
class RemainderGiver(Protocol):
    """A part that can send the driver what is left of it."""

    def share(self) -> Iterator[bytes]:
        """Returns the arrays of a `remainder.Share`, one by one."""
