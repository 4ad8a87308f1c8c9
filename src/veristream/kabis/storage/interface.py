"""What a storage party needs of its log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from veristream.kabis.log.disk.log import Gap, LogRecord, Retention
from veristream.kabis.protocol.codec import Octets


class StorageLog(Protocol):
    """The log under a party: on disk, or in memory for simulations."""

    @property
    def start(self) -> int:
        """The first position in the log."""

    @property
    def end(self) -> int:
        """The position of the next record."""

    @property
    def durable(self) -> int:
        """Every record before this position survives a crash."""

    def append(self, *parts: Octets) -> int:
        """Writes a record, given in parts, and returns its position."""

    def sync(self, *, now: bool = False) -> int:
        """Makes appended records durable and returns `durable`; `now` overrides the flush policy."""

    def read(self, position: int) -> bytes:
        """Returns the record at a position."""

    def records(self, start: int | None = None, end: int | None = None) -> Iterator[LogRecord | Gap]:
        """Yields every record from a position up to another."""

    def start_after(self, retention: Retention) -> int:
        """Returns what `start` would be after `retain`."""

    def retain(self, retention: Retention) -> int:
        """Removes the oldest records and returns the new start."""

    def compact(self, live: Sequence[int]) -> int:
        """Frees space between records that are wanted, where the log can; returns how many bytes."""
