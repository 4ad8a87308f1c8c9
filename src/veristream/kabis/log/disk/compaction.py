"""Rewrites a segment without the records that nobody wants any more; the others keep their positions.

A frame of kind RELEASED stands for each run of removed records. The new file is complete and flushed before
it takes the name of the old one, so a crash leaves one of the two.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress

from veristream.kabis.log.disk.files import Full, failure, flush_folder, open_file, write_all
from veristream.kabis.log.disk.index import SparseIndex
from veristream.kabis.log.disk.opening import Segment
from veristream.kabis.log.disk.segment import (
    DATA,
    FRAME_BYTES,
    GAP,
    GAP_BYTES,
    HEADER_BYTES,
    RELEASED,
    Damaged,
    Fault,
    Frame,
    Mark,
    Window,
    encode_gap,
    encode_header,
    encode_mark,
    mark_offset,
    positions_of,
    read_frame,
    read_payload,
)

HEADS_BYTES = 4096


def shrink(segment: Segment, live: Collection[int]) -> Segment | None:
    """Rewrites a full segment of which at most half is wanted; returns the new one, or None.

    Marks the segment if it is damaged, and raises Damaged.
    """
    try:
        held, needed = segment.end_offset - HEADER_BYTES, measure_live(segment, live)
        return rewrite(segment, live) if 2 * needed <= held and held > needed + GAP_BYTES else None
    except Damaged:
        segment.is_damaged = True
        raise


def measure_live(segment: Segment, live: Collection[int]) -> int:
    """Returns how many bytes the wanted records of a full segment take, and its gaps."""
    descriptor = open_file(segment.path, os.O_RDONLY)
    try:
        size = 0
        for frame, _ in frames_of(segment, Window(descriptor, HEADS_BYTES)):
            if (frame.kind == DATA and frame.position in live) or frame.kind == GAP:
                size += frame.end - frame.offset
        return size
    finally:
        os.close(descriptor)


def rewrite(segment: Segment, live: Collection[int]) -> Segment:
    """Replaces a full segment by one with only the wanted records, and the gaps; returns it."""
    fresh = segment.path.with_name(segment.path.name + ".new")
    source = open_file(segment.path, os.O_RDONLY)
    try:
        output = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            made = _copy(segment, Window(source), output, live)
            os.fsync(output)
        finally:
            os.close(output)
        segment.index_path.unlink(missing_ok=True)
        os.replace(fresh, segment.path)
        flush_folder(segment.path.parent)
    except (OSError, Damaged) as error:
        with suppress(OSError):
            fresh.unlink()
        if isinstance(error, Damaged):
            raise
        raise failure(error, segment.path) from error
    finally:
        os.close(source)
    with suppress(Full):  # it is rebuilt when the log is opened
        made.write_index()
    return made


def _copy(segment: Segment, window: Window, output: int, live: Collection[int]) -> Segment:
    """Writes the new file, with a mark that all of it is durable."""
    header = segment.header
    index = SparseIndex(header.first_position)
    write_all(output, encode_header(header))
    offset, kept_until = HEADER_BYTES, header.first_position
    for frame, covered in frames_of(segment, window):
        if frame.kind == RELEASED or (frame.kind == DATA and frame.position not in live):
            continue
        payload = read_payload(window, frame)
        if isinstance(payload, Fault):
            raise Damaged(str(segment.path), payload.offset, payload.position, payload.reason)
        gap = _released(kept_until, frame.position)
        data = gap + window.get(frame.offset, FRAME_BYTES) + payload
        write_all(output, data)
        index.add(frame.position, offset + len(gap))
        offset, kept_until = offset + len(data), frame.position + covered
    last = _released(kept_until, segment.end_position)
    write_all(output, last)
    mark = Mark(2, segment.end_position, offset + len(last))
    os.pwrite(output, encode_mark(mark), mark_offset(mark))
    return Segment(segment.path, header, mark, mark.position, mark.offset, index, segment.live_count)


def _released(position: int, end: int) -> bytes:
    return encode_gap(position, end - position, RELEASED) if position < end else b""


def frames_of(segment: Segment, window: Window, position: int | None = None) -> Iterator[tuple[Frame, int]]:
    """Yields the frames from the last indexed one before a position, with the positions each covers."""
    at, offset = segment.index.before(segment.header.first_position if position is None else position)
    while offset < segment.end_offset:
        frame = read_frame(window, offset, at)
        if not isinstance(frame, Frame):
            reason = "the file ends too early" if frame is None else frame.reason
            raise Damaged(str(segment.path), offset, at, reason)
        covered = 1
        if frame.kind != DATA:
            payload = read_payload(window, frame)
            if isinstance(payload, Fault):
                raise Damaged(str(segment.path), payload.offset, payload.position, payload.reason)
            covered = positions_of(frame, payload)
        yield frame, covered
        at, offset = at + covered, frame.end
