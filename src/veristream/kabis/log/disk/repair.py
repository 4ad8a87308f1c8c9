"""Checks a damaged log, and repairs it by putting gaps where records were lost.

Both need a log that no process has open. `check` changes nothing. `repair` loses nothing that can still be
read, changes no position, and keeps every file that it replaces as `NAME.damaged`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from veristream.kabis.log.disk import segment
from veristream.kabis.log.disk.files import flush_folder, lock, write_all
from veristream.kabis.log.disk.opening import Scan, scan, segment_path, segment_paths

_SEARCH_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class LostRange:
    """Records that repair could not read, from the first up to the end, exclusive."""

    first: int
    end: int


def check(folder: Path) -> list[segment.Damaged]:
    """Reads every byte of a log and returns the first damage in each segment."""
    descriptor = lock(folder)
    try:
        return list(find_damages(folder))
    finally:
        os.close(descriptor)


def repair(folder: Path) -> list[LostRange]:
    """Repairs a damaged log so that it opens, with gaps for what is lost, which it returns."""
    descriptor = lock(folder)
    try:
        lost: list[LostRange] = []
        for damage in list(find_damages(folder)):
            lost += _repair_segment(folder, Path(damage.file))
        return lost
    finally:
        os.close(descriptor)


def find_damages(folder: Path) -> Iterator[segment.Damaged]:
    """Yields the first damage in each segment; changes nothing, and a process may have the log open."""
    paths = segment_paths(folder)
    for path, following in zip(paths, [*paths[1:], None], strict=False):
        try:
            found = scan(path)
        except segment.Damaged as damage:
            yield damage
            continue
        end = None if following is None else _position_of(following)
        damage_found = _damage_of(path, found, end)
        if damage_found is not None:
            yield damage_found
        elif end is not None and found.end_position < end:
            missing = segment_path(folder, found.end_position)
            yield segment.Damaged(str(missing), 0, found.end_position, "the segment is missing")


def _damage_of(path: Path, found: Scan, end: int | None) -> segment.Damaged | None:
    if found.header.first_position != _position_of(path):
        return segment.Damaged(
            str(path), 0, _position_of(path), "the segment is not named after its first record"
        )
    if end is not None and found.fault is not None:  # only the last segment may be torn
        return segment.Damaged(str(path), found.end_offset, found.end_position, found.fault.reason)
    return found.damage(str(path))


def _position_of(path: Path) -> int:
    return int(path.stem)


def _repair_segment(folder: Path, path: Path) -> list[LostRange]:
    """Rewrites the segment from all complete frames in it, and replaces the damaged one."""
    first = _position_of(path)
    later = [_position_of(other) for other in segment_paths(folder) if _position_of(other) > first]
    created_ms, durable = _claims(path)
    fresh = path.with_name(path.name + ".new")
    output = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        write_all(output, segment.encode_header(segment.Header(first, created_ms)))
        lost = _copy(path, output, first, later[0] if later else durable)
        os.fsync(output)
    finally:
        os.close(output)
    _put_in_place(path, fresh)
    return lost


def _copy(path: Path, output: int, first: int, end: int | None) -> list[LostRange]:
    """Copies the complete frames, adds gaps up to the known end, and marks all as durable."""
    lost: list[LostRange] = []
    position = first
    for frame, data in _whole_frames(path, first):
        if frame.position > position:
            lost.append(LostRange(position, frame.position))
        write_all(output, _gap(position, frame.position) + data)
        position = frame.position + segment.positions_of(frame, data[segment.FRAME_BYTES :])
    if end is not None and position < end:
        lost.append(LostRange(position, end))
        write_all(output, _gap(position, end))
        position = end
    mark = segment.Mark(2, position, os.lseek(output, 0, os.SEEK_CUR))
    os.pwrite(output, segment.encode_mark(mark), segment.mark_offset(mark))
    return lost


def _gap(position: int, end: int) -> bytes:
    return segment.encode_gap(position, end - position) if position < end else b""


def _claims(path: Path) -> tuple[int, int | None]:
    """Returns when the segment was made and where its durable part ends, if that is readable."""
    if not path.exists():
        return 0, None
    with path.open("rb") as file:
        head = file.read(segment.HEADER_BYTES)
    created_ms, durable = int(path.stat().st_mtime * 1000), None
    with suppress(segment.Damaged):
        created_ms = segment.decode_header(str(path), head).created_ms
    with suppress(segment.Damaged):
        durable = segment.decode_marks(str(path), head)[0].position
    return created_ms, durable


def _put_in_place(path: Path, fresh: Path) -> None:
    if path.exists():
        kept = path.with_name(path.name + ".damaged")
        number = 1
        while kept.exists():
            number += 1
            kept = path.with_name(f"{path.name}.damaged{number}")
        os.link(path, kept)
    path.with_suffix(".index").unlink(missing_ok=True)
    os.replace(fresh, path)
    flush_folder(path.parent)


def _whole_frames(path: Path, first: int) -> Iterator[tuple[segment.Frame, bytes]]:
    """Yields every complete frame of the file that follows the one before, with its bytes."""
    if not path.exists():
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        window = segment.Window(descriptor)
        size = os.fstat(descriptor).st_size
        offset: int | None = segment.HEADER_BYTES
        position = first
        while offset is not None:
            frame = segment.find_frame(window, offset)
            payload = segment.read_payload(window, frame) if isinstance(frame, segment.Frame) else None
            if (
                isinstance(frame, segment.Frame)
                and isinstance(payload, bytes)
                and frame.position >= position
            ):
                yield frame, window.get(offset, segment.FRAME_BYTES) + payload
                position, offset = frame.position + segment.positions_of(frame, payload), frame.end
            else:
                offset = _next_magic(descriptor, offset + 1, size)
    finally:
        os.close(descriptor)


def _next_magic(descriptor: int, offset: int, size: int) -> int | None:
    """Returns the offset of the next bytes that could begin a frame."""
    while offset < size:
        data = segment.read_at(descriptor, offset, _SEARCH_BYTES)
        found = data.find(segment.FRAME_MAGIC)
        if found >= 0:
            return offset + found
        offset += max(len(data) - len(segment.FRAME_MAGIC) + 1, 1)
    return None
