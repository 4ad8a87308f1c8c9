"""A log in memory that behaves like the one on disk, for simulations: unsynced records can be lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from veristream.kabis.log.disk.log import BelowRetention, Gap, LogRecord, Retention
from veristream.kabis.protocol.codec import Octets


class MemoryLog:
    """Records in a list; `crash` forgets those that were never synced."""

    def __init__(self) -> None:
        self._records: list[bytes] = []
        self._start = 0
        self._durable = 0
        self._released: set[int] = set()

    @property
    def start(self) -> int:
        """The first position in the log."""
        return self._start

    @property
    def end(self) -> int:
        """The position of the next record."""
        return self._start + len(self._records)

    @property
    def durable(self) -> int:
        """Every record before this position survives a crash."""
        return self._durable

    @property
    def size_bytes(self) -> int:
        """The size of the records."""
        return sum(map(len, self._records))

    def append(self, *parts: Octets) -> int:
        """Appends a record, given in parts, and returns its position."""
        self._records.append(b"".join(parts))
        return self.end - 1

    def sync(self, *, now: bool = False) -> int:
        """Makes everything durable and returns the new `durable`."""
        self._durable = self.end
        return self._durable

    def read(self, position: int) -> bytes:
        """Returns the record at a position. Raises `BelowRetention`, or IndexError if it is not written."""
        if position < self._start or position in self._released:
            raise BelowRetention(position, self._start)
        return self._records[position - self._start]

    def records(self, start: int | None = None, end: int | None = None) -> Iterator[LogRecord | Gap]:
        """Yields every record from a position up to another."""
        first = self._start if start is None else start
        if first < self._start:
            raise BelowRetention(first, self._start)
        for position in range(first, self.end if end is None else min(end, self.end)):
            if position in self._released:
                yield Gap(position, 1, released=True)
            else:
                yield LogRecord(position, self._records[position - self._start])

    def start_after(self, retention: Retention) -> int:
        """Returns what `start` would be after `retain`."""
        return min(max(retention.low_water or 0, self._start), self.end)

    def retain(self, retention: Retention) -> int:
        """Removes every record below the low-water mark; ignores size and age."""
        keep = self.start_after(retention)
        del self._records[: keep - self._start]
        self._start, self._durable = keep, max(keep, self._durable)
        return keep

    def skip_to(self, position: int) -> None:
        """Removes all records and continues at a later position."""
        assert position >= self.end, "positions never go back"
        self._records.clear()
        self._released.clear()
        self._start = self._durable = position

    def compact(self, live: Sequence[int]) -> int:
        """Releases all durable records that are not wanted."""
        wanted, before = set(live), self.size_bytes
        for position in range(self._start, self._durable):
            if position not in wanted:
                self._released.add(position)
                self._records[position - self._start] = b""
        return before - self.size_bytes

    def crash(self) -> None:
        """Loses what was never synced, like a machine whose power fails."""
        del self._records[self._durable - self._start :]
