"""Names of what storage parties keep: a partition of a topic, and one producer's stream in it."""

from __future__ import annotations

from dataclasses import dataclass

from veristream.kabis.protocol.batch import BatchHeader
from veristream.kabis.protocol.fields import U32, Name


@dataclass(frozen=True, slots=True)
class PartitionName:
    """A partition of a topic."""

    topic: Name
    partition: U32


@dataclass(frozen=True, slots=True)
class StreamName:
    """One producer's batches under one key, in one partition of a topic."""

    topic: Name
    partition: U32
    producer: Name
    key_epoch: U32


def stream_of(header: BatchHeader) -> StreamName:
    """Returns the stream that a batch belongs to."""
    return StreamName(header.topic, header.partition, header.producer, header.key_epoch)
