"""Reads the parties' files in a folder, whether they run or not.

    DIR/genesis.json
    DIR/VALIDATOR/blocks/*.segment     of one validator at least
    DIR/PARTY/log/*.segment            of each storage party

This is the folder of a cluster on one machine, or one that an auditor has collected from several machines.
Files are only read. A log that is being written, or was torn by a crash, ends at its last whole record.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path

from veristream.errors import EnvironmentFailure
from veristream.kabis.audit.check import BatchCopy, Condition, inspect
from veristream.kabis.audit.history import CHANGE_TAG, History, find_history
from veristream.kabis.audit.registry import Registry
from veristream.kabis.log.disk.opening import segment_paths
from veristream.kabis.log.disk.segment import (
    DATA,
    HEADER_BYTES,
    Damaged,
    Fault,
    Frame,
    Window,
    decode_header,
    decode_marks,
    positions_of,
    read_at,
    read_frame,
    read_payload,
)
from veristream.kabis.protocol.batch import BatchError, PackedBatch
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.storage.entries import BatchEntry, decode_entry


@dataclass(frozen=True, slots=True)
class Segment:
    """A file that one task reads, and its owner."""

    owner: str
    path: str


@dataclass(frozen=True, slots=True)
class Damage:
    """Durable bytes differ from what was written."""

    detail: str


def block_segments(folder: Path, genesis: Genesis) -> list[Segment]:
    """Returns the block files of the validator with the most blocks in the folder, founding or later."""
    names = sorted(
        {party.name for party in genesis.validators}
        | {each.parent.name for each in folder.glob("*/blocks")}
    )
    found = {name: segment_paths(folder / name / "blocks") for name in names}
    sizes = {name: sum(path.stat().st_size for path in paths) for name, paths in found.items()}
    longest = max(sizes, key=lambda name: sizes[name])
    if not found[longest]:
        raise EnvironmentFailure(
            f"{folder} has no validator's blocks",
            "name a folder with --data that contains validator-1/blocks and storage-1/log",
        )
    return [Segment(longest, str(path.resolve())) for path in found[longest]]


def storage_segments(folder: Path, names: Iterable[str]) -> list[Segment]:
    """Returns the log files of these storage parties, largest first, so that no long task starts last."""
    found = [
        Segment(name, str(path.resolve()))
        for name in names
        for path in segment_paths(folder / name / "log")
    ]
    return sorted(found, key=lambda segment: -os.path.getsize(segment.path))


def read_segment(path: str) -> Iterator[bytes | Damage]:
    """Yields the records of a segment, and `Damage` where durable bytes are damaged.

    Reading continues after a damaged record, but not after an incomplete frame.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            head = read_at(descriptor, 0, HEADER_BYTES)
            header, (mark, _) = decode_header(path, head), decode_marks(path, head)
        except Damaged as damaged:
            yield Damage(damaged.message)
            return
        window = Window(descriptor)
        position, offset = header.first_position, HEADER_BYTES
        while True:
            frame = read_frame(window, offset, position)
            if not isinstance(frame, Frame):
                break
            payload = read_payload(window, frame)
            if isinstance(payload, Fault):
                if offset >= mark.offset:
                    return
                yield Damage(f"{path} at byte {offset}: {payload.reason}")
                position, offset = position + 1, frame.end
                continue
            if frame.kind == DATA:
                yield payload
            position, offset = position + positions_of(frame, payload), frame.end
        if offset < mark.offset:
            reason = frame.reason if isinstance(frame, Fault) else "the file ends too early"
            yield Damage(f"{path} at byte {offset}: {reason}; what follows cannot be read")
    finally:
        os.close(descriptor)


def read_blocks(segment: Segment) -> Iterator[CertifiedBlock]:
    """Yields the blocks of a segment; raises EnvironmentFailure if one is damaged."""
    for payload in read_segment(segment.path):
        if isinstance(payload, Damage):
            raise EnvironmentFailure(
                f"blocks of {segment.owner} cannot be read: {payload.detail}",
                "use the blocks of another validator",
            )
        try:
            yield CertifiedBlock.decode(payload)
        except DecodeError as error:
            raise EnvironmentFailure(f"{segment.path} contains a malformed block: {error}") from error


def read_history(genesis: Genesis, segments: Sequence[Segment]) -> History:
    """Returns the members by height, given all block files; decodes only those with a change."""
    changing = (segment for segment in segments if _contains(segment.path, CHANGE_TAG))
    return find_history(genesis, (block for segment in changing for block in read_blocks(segment)))


def _contains(path: str, wanted: bytes) -> bool:
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return False
        with mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            return data.find(wanted) >= 0


def read_stored(segment: Segment, registry: Registry, topics: frozenset[str] | None) -> Iterator[BatchCopy]:
    """Yields the checked batches of a storage party's segment, of some topics or of all."""
    for payload in read_segment(segment.path):
        if isinstance(payload, Damage):
            yield BatchCopy(segment.owner, Condition.DAMAGED, detail=payload.detail)
            continue
        try:
            entry = decode_entry(payload)
            if not isinstance(entry, BatchEntry):
                continue
            if topics is None or _topic_of(entry) in topics:
                yield inspect(registry, segment.owner, bytes(entry.data))
        except DecodeError as error:
            yield BatchCopy(segment.owner, Condition.DAMAGED, detail=f"{segment.path}: {error}")


def read_whole(segment: Segment) -> Iterator[bytes]:
    """Yields the digests of the batches of a segment whose events are those under their signed root."""
    for payload in read_segment(segment.path):
        if isinstance(payload, Damage):
            continue
        try:
            entry = decode_entry(payload)
            if isinstance(entry, BatchEntry):
                batch = PackedBatch.decode(entry.data)
                batch.verify_contents()
                yield batch.signed.digest()
        except (BatchError, DecodeError):
            continue


def _topic_of(entry: BatchEntry) -> str:
    return entry.signed.header.topic
