"""The parties' own files in a folder: an audit of what is on their disks, whether they run or not.

    DIR/genesis.json
    DIR/VALIDATOR/blocks/*.segment     of one validator at least
    DIR/PARTY/log/*.segment            of each storage party

That is the folder of a cluster on one machine, or one that an auditor has put together from several. Files
are only read; the end of a log that is being written, or that a crash has torn, is where it ends.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from veristream.errors import EnvironmentFailure
from veristream.kabis.audit.check import BatchCopy, Condition, inspect
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
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.storage.entries import BatchEntry, decode_entry


@dataclass(frozen=True, slots=True)
class Segment:
    """A file to be read by one task, and whose it is."""

    owner: str
    path: str


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that were durable are not what was written."""

    detail: str


def block_segments(folder: Path, genesis: Genesis) -> list[Segment]:
    """The blocks of the validator that has most of them in the folder."""
    found = {party.name: segment_paths(folder / party.name / "blocks") for party in genesis.validators}
    sizes = {name: sum(path.stat().st_size for path in paths) for name, paths in found.items()}
    longest = max(sizes, key=lambda name: sizes[name])
    if not found[longest]:
        raise EnvironmentFailure(
            f"{folder} has no validator's blocks",
            "give --data a folder with validator-1/blocks and storage-1/log, as the parties write them",
        )
    return [Segment(longest, str(path.resolve())) for path in found[longest]]


def storage_segments(folder: Path, genesis: Genesis) -> list[Segment]:
    """The logs of all storage parties, the largest files first, so that no long one is begun last."""
    found = [
        Segment(party.name, str(path.resolve()))
        for party in genesis.storage
        for path in segment_paths(folder / party.name / "log")
    ]
    return sorted(found, key=lambda segment: -os.path.getsize(segment.path))


def read_segment(path: str) -> Iterator[bytes | Damage]:
    """The records of a segment, one after the other; where bytes that were durable are damaged, it says so.

    Behind a record that is damaged it goes on; behind a frame that is not whole nothing can be found.
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
    """The blocks of a segment; raises EnvironmentFailure where one cannot be read."""
    for payload in read_segment(segment.path):
        if isinstance(payload, Damage):
            raise EnvironmentFailure(
                f"blocks of {segment.owner} cannot be read: {payload.detail}",
                "take the blocks of another validator",
            )
        try:
            yield CertifiedBlock.decode(payload)
        except DecodeError as error:
            raise EnvironmentFailure(f"{segment.path} holds what is no block: {error}") from error


def read_stored(segment: Segment, registry: Registry, topics: frozenset[str] | None) -> Iterator[BatchCopy]:
    """The batches of a storage party's segment, checked; of certain topics only, or of all."""
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


def _topic_of(entry: BatchEntry) -> str:
    return entry.signed.header.topic
