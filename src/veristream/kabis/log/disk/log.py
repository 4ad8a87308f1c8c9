"""A log of opaque records on disk, in segments: append, make durable, read, forget the oldest.

*Positions* number the records from 0 and never change. `append` writes a record and returns its position;
`sync` makes all appended records durable with one flush (group commit), and returns up to where. `append`
and reads belong to one thread. `sync` may run in another, so that a flush blocks nobody.

*Recovery.* A crash may tear what lies above the durability mark: the first incomplete frame there ends the
log, the rest is cut off, and `recovery` reports it. Damage below the mark is never mistaken for a torn
write: opening raises `Damaged` if it is in the last segment, and reading does if it is in an earlier one.
One case is ambiguous, as in any log: when the *machine* loses power, the last mark may not have reached the
disk, and if a bit of that last flush flips as well, it looks like a torn write.

*Damage is never skipped silently.* `repair`, which an operator calls on a closed log, keeps the damaged
file beside the log and replaces what cannot be read with a `Gap` that says which positions were lost.
Reading one raises `Lost`, iterating yields the `Gap`. All other records keep their positions.

*Disk full, or too many open files:* an append that does not fit is undone and raises `Full`; the log stays
usable. After a failed flush every call raises `Failed`, because the system may have dropped the pages; the
log must be reopened.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from pathlib import Path

from veristream.errors import EnvironmentFailure
from veristream.kabis.log.disk.compaction import frames_of, shrink
from veristream.kabis.log.disk.files import (
    Failed,
    Full,
    failure,
    flush,
    flush_folder,
    lock,
    open_file,
    replace,
)
from veristream.kabis.log.disk.index import SparseIndex
from veristream.kabis.log.disk.opening import Segment, open_segments, segment_path
from veristream.kabis.log.disk.segment import (
    DATA,
    FRAME_BYTES,
    GAP,
    HEADER_BYTES,
    RECORD_BYTES_MAX,
    RELEASED,
    Damaged,
    Fault,
    Frame,
    Header,
    Mark,
    Window,
    encode_frame,
    encode_header,
    encode_mark,
    mark_offset,
    read_payload,
)
from veristream.kabis.protocol.codec import Octets

OPEN_FILES_MAX = 16


class BelowRetention(EnvironmentFailure):
    """The record was removed by retention; the log now starts at `start`."""

    def __init__(self, position: int, start: int) -> None:
        super().__init__(
            f"record {position} is below retention: the log starts at {start}",
            f"read from {start} on",
        )
        self.position = position
        self.start = start


class Lost(EnvironmentFailure):
    """The record was damaged, and repair has marked it as lost."""

    def __init__(self, position: int) -> None:
        super().__init__(f"record {position} was lost to damage", "fetch it from another storage party")
        self.position = position


class TooLarge(EnvironmentFailure):
    """A record is larger than a log accepts."""


class Flush(Enum):
    """When `sync` flushes: at once, at most once in an interval, or never (the system does eventually)."""

    ALWAYS = "always"
    INTERVAL = "interval"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The size of segments, and when they are flushed."""

    segment_bytes_max: int = 64 << 20
    flush: Flush = Flush.ALWAYS
    interval_ms: int = 5


@dataclass(frozen=True, slots=True)
class Retention:
    """What to remove: segments wholly below `low_water`, too old, or past a size; None is no limit."""

    low_water: int | None = None
    size_bytes_max: int | None = None
    age_ms_max: int | None = None


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record and its position."""

    position: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Gap:
    """`count` positions from here on were lost to damage, or were `released` because nobody wanted them."""

    position: int
    count: int
    released: bool = False


@dataclass(frozen=True, slots=True)
class _Tail:
    """The end of the log, replaced atomically, because `sync` reads it in another thread."""

    position: int
    offset: int


class Log:
    """A log in a folder that only this process has open; `recovery` says what opening found."""

    def __init__(
        self,
        folder: Path,
        options: LogOptions = LogOptions(),
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._folder = folder
        self._options = options
        self._clock_ms = clock_ms
        self._syncing = threading.Lock()
        self._failure: EnvironmentFailure | None = None
        self._readers: OrderedDict[Path, int] = OrderedDict()
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = lock(folder)
        try:
            self._segments, self.recovery = open_segments(folder)
            if not self._segments:
                self._segments.append(self._create(0))
            self._activate(self._segments[-1], _open_to_write(self._segments[-1]))
            self._flush(self._tail)  # after a crash, it may be only in the system's cache
            if str(self._active.path) in self.recovery.marks_torn:
                self._write_mark(self._tail, again=True)
        except BaseException:
            os.close(self._lock)
            raise

    def _activate(self, segment: Segment, descriptor: int) -> None:
        """Continues in this segment."""
        self._active, self._descriptor = segment, descriptor
        self._tail = _Tail(segment.end_position, segment.end_offset)
        self._mark = segment.mark

    @property
    def start(self) -> int:
        """The first position in the log."""
        return self._segments[0].header.first_position

    @property
    def end(self) -> int:
        """The position of the next record."""
        return self._tail.position

    @property
    def durable(self) -> int:
        """Every record before this position survives a crash, within the limits of the flush policy."""
        return self._durable

    @property
    def size_bytes(self) -> int:
        """The size of the segments on disk."""
        return sum(segment.end_offset for segment in self._segments)

    def append(self, *parts: Octets) -> int:
        """Writes a record, given in parts, and returns its position; `sync` makes it durable.

        Keeps nothing of a record that cannot be written whole.
        """
        self._usable()
        record_bytes = sum(map(len, parts))
        if record_bytes > RECORD_BYTES_MAX:
            raise TooLarge(
                f"a record has {record_bytes} bytes, the log takes {RECORD_BYTES_MAX}",
                "send smaller batches",
            )
        size = FRAME_BYTES + record_bytes
        if self._tail.offset > HEADER_BYTES and self._tail.offset + size > self._options.segment_bytes_max:
            self._roll()
        before = self._tail
        try:
            self._write([encode_frame(before.position, parts), *parts], size, before.offset)
        except OSError as error:
            self._take_back(before)
            raise failure(error, self._active.path) from error
        self._active.index.add(before.position, before.offset)
        self._tail = tail = _Tail(before.position + 1, before.offset + size)
        self._active.end_position, self._active.end_offset = tail.position, tail.offset
        return before.position

    def _write(self, buffers: list[Octets], size: int, offset: int) -> None:
        written = os.pwritev(self._descriptor, buffers, offset)
        if written < size:
            self._write_rest(b"".join(buffers)[written:], offset + written)

    def _write_rest(self, data: bytes, offset: int) -> None:
        """Continues after a short write, which on a full disk then fails with the reason."""
        rest = memoryview(data)
        while rest:
            written = os.pwrite(self._descriptor, rest, offset)
            rest, offset = rest[written:], offset + written

    def _take_back(self, before: _Tail) -> None:
        try:
            os.ftruncate(self._descriptor, before.offset)
        except OSError as error:
            self._failure = Failed(
                f"{self._active.path}: a write failed and could not be taken back: {error.strerror}",
                "look at the disk, then start the party again",
            )

    def sync(self, *, now: bool = False) -> int:
        """Makes the appended records durable, according to the flush policy, and returns `durable`.

        With `now`, flushes regardless of the policy.
        """
        with self._syncing:
            self._usable()
            tail = self._tail
            if now or self._due(tail):
                self._flush(tail)
            elif self._options.flush is Flush.NEVER:
                self._durable = tail.position
            return self._durable

    def _due(self, tail: _Tail) -> bool:
        match self._options.flush:
            case Flush.NEVER:
                return False
            case Flush.ALWAYS:
                return tail.position > self._durable
            case Flush.INTERVAL:
                waited_ms = self._clock_ms() - self._flushed_ms
                return tail.position > self._durable and not 0 <= waited_ms < self._options.interval_ms

    def _flush(self, tail: _Tail) -> None:
        try:
            flush(self._descriptor)
            self._durable = tail.position
            self._write_mark(tail)
        except OSError as error:
            self._failure = Failed(
                f"{self._active.path} could not be flushed: {error.strerror}",
                "what was not yet acknowledged may be lost; look at the disk, then start the party again",
            )
            raise self._failure from error
        self._flushed_ms = self._clock_ms()

    def _write_mark(self, tail: _Tail, *, again: bool = False) -> None:
        if tail.offset == self._mark.offset and not again:
            return
        self._mark = Mark(self._mark.number + 1, tail.position, tail.offset)
        os.pwrite(self._descriptor, encode_mark(self._mark), mark_offset(self._mark))

    def _roll(self) -> None:
        """Ends the segment, flushed with its last mark regardless of the policy, and begins the next."""
        with self._syncing:
            self._usable()
            self._seal()
            try:
                fresh = self._create(self._tail.position)
                descriptor = _open_to_write(fresh)
            except EnvironmentFailure:  # this segment may get smaller records, so nothing may follow it yet
                segment_path(self._folder, self._tail.position).unlink(missing_ok=True)
                raise
            with suppress(Full):  # it is rebuilt when the log is opened
                self._active.write_index()
            os.close(self._descriptor)
            self._segments.append(fresh)
            self._activate(fresh, descriptor)

    def _seal(self) -> None:
        """Flushes twice: the second flush is for the mark that records the first."""
        self._flush(self._tail)
        self._flush(self._tail)

    def _create(self, first_position: int) -> Segment:
        header = Header(first_position, self._clock_ms())
        path = segment_path(self._folder, first_position)
        replace(path, encode_header(header))
        mark = Mark(1, first_position, HEADER_BYTES)
        return Segment(path, header, mark, first_position, HEADER_BYTES, SparseIndex(first_position))

    def read(self, position: int) -> bytes:
        """Returns the record at a position. Raises `BelowRetention`, `Lost`, `Damaged` or IndexError."""
        segment = self._segment_of(position)
        if position >= self.end:
            raise IndexError(f"record {position} is not written yet: the log ends at {self.end}")
        window = Window(self._reader(segment), size=32 << 10)
        for frame, covered in frames_of(segment, window, position):
            if position < frame.position + covered:
                if frame.kind == RELEASED:
                    raise BelowRetention(position, self.start)
                if frame.kind == GAP:
                    raise Lost(position)
                return _payload(segment, window, frame)
        raise Damaged(str(segment.path), segment.end_offset, position, "the record is not in its segment")

    def records(self, start: int | None = None, end: int | None = None) -> Iterator[LogRecord | Gap]:
        """Yields every record from a position up to another (by default the current end), and the gaps."""
        position = self.start if start is None else start
        limit = self.end if end is None else min(end, self.end)
        while position < limit:
            segment = self._segment_of(position)
            for entry in _entries(segment, position):
                if entry.position >= limit:
                    return
                yield entry
                position = entry.position + (entry.count if isinstance(entry, Gap) else 1)
            if position < min(limit, segment.end_position):
                raise Damaged(
                    str(segment.path), segment.end_offset, position, "the record is not in its segment"
                )

    def _segment_of(self, position: int) -> Segment:
        if position < self.start:
            raise BelowRetention(position, self.start)
        place = bisect_right(self._segments, position, key=lambda segment: segment.header.first_position)
        return self._segments[place - 1]

    def _reader(self, segment: Segment) -> int:
        """Returns a descriptor to read the segment; closes the least recently used one past a limit."""
        if segment is self._active:
            return self._descriptor
        found = self._readers.pop(segment.path, None)
        if found is None:
            if len(self._readers) >= OPEN_FILES_MAX:
                os.close(self._readers.popitem(last=False)[1])
            found = open_file(segment.path, os.O_RDONLY)
        self._readers[segment.path] = found
        return found

    def start_after(self, retention: Retention) -> int:
        """Returns what `start` would be after `retain`."""
        size = self.size_bytes
        for oldest, following in pairwise(self._segments):
            if not self._may_go(oldest, following, retention, size):
                return oldest.header.first_position
            size -= oldest.end_offset
        return self._segments[-1].header.first_position

    def _may_go(self, oldest: Segment, following: Segment, retention: Retention, size: int) -> bool:
        below = retention.low_water is not None and oldest.end_position <= retention.low_water
        too_much = retention.size_bytes_max is not None and size > retention.size_bytes_max
        # Its last record was written before the next segment was made.
        age_ms = self._clock_ms() - following.header.created_ms
        return below or too_much or (retention.age_ms_max is not None and age_ms > retention.age_ms_max)

    def retain(self, retention: Retention) -> int:
        """Removes the oldest segments that retention allows, never the last one; returns the new start."""
        self._usable()
        start = self.start_after(retention)
        while self.start < start:
            self._remove(self._segments.pop(0))
        return self.start

    def compact(self, live: Sequence[int]) -> int:
        """Rewrites one full segment of which at most half is wanted; returns how many bytes that frees.

        `live` are the positions of the wanted records, ascending. The others are released. Raises Damaged
        once for each damaged segment, and leaves it alone from then on.
        """
        self._usable()
        for number, segment in enumerate(self._segments[:-1]):
            begin = bisect_left(live, segment.header.first_position)
            wanted = frozenset(live[begin : bisect_left(live, segment.end_position)])
            if segment.is_damaged or len(wanted) == segment.live_count:
                continue
            segment.live_count = len(wanted)
            made = shrink(segment, wanted)
            if made is not None:
                reader = self._readers.pop(segment.path, None)
                if reader is not None:
                    os.close(reader)
                self._segments[number] = made
                return segment.end_offset - made.end_offset
        return 0

    def skip_to(self, position: int) -> None:
        """Removes all records and continues at a later position; a crash may leave some of them."""
        assert position >= self.end, "positions never go back"
        with self._syncing:
            self._usable()
            os.close(self._descriptor)
            for segment in self._segments:
                self._remove(segment)
            self._segments = [self._create(position)]
            self._activate(self._segments[0], _open_to_write(self._segments[0]))
            self._flush(self._tail)

    def _remove(self, segment: Segment) -> None:
        reader = self._readers.pop(segment.path, None)
        if reader is not None:
            os.close(reader)
        try:
            segment.index_path.unlink(missing_ok=True)
            segment.path.unlink()
            flush_folder(self._folder)  # one by one, so that a crash leaves no hole between segments
        except OSError as error:
            raise failure(error, segment.path) from error

    def close(self) -> None:
        """Makes everything durable regardless of the policy, and closes the folder."""
        with self._syncing:
            if self._lock < 0:
                return
            try:
                if self._failure is None:
                    self._seal()
            finally:
                for descriptor in (self._descriptor, *self._readers.values(), self._lock):
                    os.close(descriptor)
                self._lock = -1
                self._failure = self._failure or Failed("the log is closed", "open it again")

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _usable(self) -> None:
        if self._failure is not None:
            raise self._failure


def _open_to_write(segment: Segment) -> int:
    return open_file(segment.path, os.O_RDWR)


def _payload(segment: Segment, window: Window, frame: Frame) -> bytes:
    payload = read_payload(window, frame)
    if isinstance(payload, Fault):
        raise Damaged(str(segment.path), payload.offset, payload.position, payload.reason)
    return payload


def _entries(segment: Segment, position: int) -> Iterator[LogRecord | Gap]:
    """Yields the records of the segment from a position on, read through its own descriptor."""
    descriptor = open_file(segment.path, os.O_RDONLY)
    try:
        window = Window(descriptor)
        for frame, covered in frames_of(segment, window, position):
            if frame.position + covered <= position:
                continue
            if frame.kind != DATA:
                first = max(frame.position, position)
                yield Gap(first, frame.position + covered - first, released=frame.kind == RELEASED)
            else:
                yield LogRecord(frame.position, _payload(segment, window, frame))
    finally:
        os.close(descriptor)
