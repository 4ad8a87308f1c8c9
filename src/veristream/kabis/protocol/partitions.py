"""Names of what storage parties keep: a partition of a topic, and one producer's stream in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from veristream.kabis.protocol.batch import BatchHeader
from veristream.kabis.protocol.codec import Reader, Writer


@dataclass(frozen=True, slots=True)
class PartitionName:
    """A partition of a topic."""

    topic: str
    partition: int

    def write(self, writer: Writer) -> None:
        """Appends the name."""
        writer.text(self.topic)
        writer.u32(self.partition)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Takes a name."""
        return cls(reader.text(), reader.u32())


@dataclass(frozen=True, slots=True)
class StreamName:
    """Whose batches: one producer under one key, in one partition of a topic."""

    topic: str
    partition: int
    producer: str
    key_epoch: int

    def write(self, writer: Writer) -> None:
        """Appends the name."""
        writer.text(self.topic)
        writer.u32(self.partition)
        writer.text(self.producer)
        writer.u32(self.key_epoch)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Takes a name."""
        return cls(reader.text(), reader.u32(), reader.text(), reader.u32())


def stream_of(header: BatchHeader) -> StreamName:
    """The stream that a batch belongs to."""
    return StreamName(header.topic, header.partition, header.producer, header.key_epoch)
