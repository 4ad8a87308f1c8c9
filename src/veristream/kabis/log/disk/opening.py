"""Opens the segments of a folder: cuts off and reports a torn write, and refuses damage."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from veristream.kabis.log.disk.files import Full, replace
from veristream.kabis.log.disk.index import SparseIndex
from veristream.kabis.log.disk.segment import (
    HEADER_BYTES,
    Damaged,
    Fault,
    Header,
    Mark,
    Window,
    decode_header,
    decode_marks,
    positions_of,
    read_at,
    read_frame,
    read_payload,
)


@dataclass(frozen=True, slots=True)
class Torn:
    """The end of a file that a crash left half-written; it was never reported as durable."""

    file: str
    offset: int
    position: int
    bytes_cut: int
    reason: str


@dataclass(frozen=True, slots=True)
class Recovery:
    """What opening a log found: the tail that was cut off, rebuilt indexes, torn marks."""

    torn: Torn | None = None
    indexes_rebuilt: tuple[str, ...] = ()
    marks_torn: tuple[str, ...] = ()


@dataclass(slots=True)
class Segment:
    """A segment of an open log; only the last one grows."""

    path: Path
    header: Header
    mark: Mark
    end_position: int
    end_offset: int
    index: SparseIndex
    live_count: int = -1
    """How many of its records were wanted when their sizes were last compared; -1 if they never were."""
    is_damaged: bool = False
    """Whether compaction met damage, so that it leaves the segment to `repair`."""

    @property
    def index_path(self) -> Path:
        """The file of its index, written when the segment is full."""
        return self.path.with_suffix(".index")

    def write_index(self) -> None:
        """Writes the index beside the segment without a flush; an incomplete one is rebuilt."""
        replace(self.index_path, self.index.encode(self.end_position, self.end_offset), flushed=False)


@dataclass(frozen=True, slots=True)
class Scan:
    """The result of a walk through a segment, to its end or to a fault."""

    header: Header
    mark: Mark
    both_marks: bool
    end_position: int
    end_offset: int
    size: int
    index: SparseIndex
    fault: Fault | None

    def damage(self, file: str) -> Damaged | None:
        """The fault, if it lies below the durability mark."""
        if self.end_offset >= self.mark.offset:
            return None
        reason = self.fault.reason if self.fault else "records that were durable are missing"
        return Damaged(file, self.end_offset, self.end_position, reason)


def segment_path(folder: Path, first_position: int) -> Path:
    """Returns the file of the segment that begins at a position; names sort like positions."""
    return folder / f"{first_position:020d}.segment"


def segment_paths(folder: Path) -> list[Path]:
    """Returns the segments of a folder, in order."""
    return sorted(folder.glob("*.segment"))


def scan(path: Path) -> Scan:
    """Walks through a segment and checks every byte of it; changes nothing."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        head = read_at(descriptor, 0, HEADER_BYTES)
        header, (mark, both) = decode_header(str(path), head), decode_marks(str(path), head)
        index = SparseIndex(header.first_position)
        position, offset, fault = header.first_position, HEADER_BYTES, None
        window = Window(descriptor)
        while True:
            frame = read_frame(window, offset, position)
            if frame is None:
                break
            payload = frame if isinstance(frame, Fault) else read_payload(window, frame)
            if isinstance(frame, Fault) or isinstance(payload, Fault):
                fault = payload if isinstance(payload, Fault) else None
                break
            index.add(position, offset)
            position, offset = position + positions_of(frame, payload), frame.end
        size = os.fstat(descriptor).st_size
        return Scan(header, mark, both, position, offset, size, index, fault)
    finally:
        os.close(descriptor)


def open_segments(folder: Path) -> tuple[list[Segment], Recovery]:
    """Opens the segments of a log: cuts off a torn end, and loads the indexes."""
    for leftover in folder.glob("*.new"):
        leftover.unlink()
    paths = segment_paths(folder)
    rebuilt: list[str] = []
    marks_torn: list[str] = []
    segments: list[Segment] = []
    for path in paths[:-1]:
        segments.append(_open_full(path, rebuilt, marks_torn))
        _require_next(segments[-1], paths[len(segments)])
    torn = None
    if paths:
        last, torn = _open_last(paths[-1], marks_torn)
        segments.append(last)
    return segments, Recovery(torn, tuple(rebuilt), tuple(marks_torn))


def _require_next(segment: Segment, following: Path) -> None:
    """Raises `Damaged` unless the next file continues this one: a missing segment is damage too."""
    if following != segment_path(segment.path.parent, segment.end_position):
        raise Damaged(
            str(segment_path(segment.path.parent, segment.end_position)),
            0,
            segment.end_position,
            f"the segment is missing; the next one is {following.name}",
        )


def _open_full(path: Path, rebuilt: list[str], marks_torn: list[str]) -> Segment:
    """Opens a segment other than the last: its mark says where it ends; reads check its records."""
    with path.open("rb") as file:
        head = file.read(HEADER_BYTES)
        size = os.fstat(file.fileno()).st_size
    header, (mark, both) = decode_header(str(path), head), decode_marks(str(path), head)
    _require_named(path, header)
    if not both:
        marks_torn.append(str(path))
    index = _load_index(path, header, mark) if size == mark.offset else None
    if index is not None:
        return Segment(path, header, mark, mark.position, mark.offset, index)
    found = scan(path)
    if found.fault is not None:
        raise found.damage(str(path)) or Damaged(
            str(path), found.end_offset, found.end_position, found.fault.reason
        )
    if found.end_offset < found.mark.offset:
        raise Damaged(
            str(path), found.end_offset, found.end_position, "records that were durable are missing"
        )
    segment = Segment(path, header, mark, found.end_position, found.end_offset, found.index)
    with suppress(Full):  # it only saves this walk next time
        segment.write_index()
    rebuilt.append(str(path))
    return segment


def _load_index(path: Path, header: Header, mark: Mark) -> SparseIndex | None:
    try:
        data = path.with_suffix(".index").read_bytes()
    except FileNotFoundError:
        return None
    return SparseIndex.decode(data, header.first_position, mark.position, mark.offset)


def _open_last(path: Path, marks_torn: list[str]) -> tuple[Segment, Torn | None]:
    found = scan(path)
    _require_named(path, found.header)
    damage = found.damage(str(path))
    if damage is not None:
        raise damage
    if not found.both_marks:
        marks_torn.append(str(path))
    torn = None
    if found.fault is not None:
        cut = found.size - found.end_offset
        torn = Torn(str(path), found.end_offset, found.end_position, cut, found.fault.reason)
        os.truncate(path, found.end_offset)
    segment = Segment(path, found.header, found.mark, found.end_position, found.end_offset, found.index)
    return segment, torn


def _require_named(path: Path, header: Header) -> None:
    if path != segment_path(path.parent, header.first_position):
        raise Damaged(
            str(path), 0, header.first_position, "the segment is not named after its first record"
        )
