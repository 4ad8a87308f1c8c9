"""What an admin or client may ask for: topics, keys, consumer groups, marks; `Signed` carries each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from veristream.kabis.protocol.blocks import TRANSACTION_BYTES_MAX
from veristream.kabis.protocol.codec import (
    PUBLIC_KEY_BYTES,
    Coded,
    Reader,
    Writer,
    decode_one_of,
    domain_tag,
    require_ascending,
)

TOPICS_MAX = 1000
OFFSETS_MAX = 1000


class TransactionPart(Coded):
    """Anything that must fit a transaction."""

    __slots__ = ()

    BYTES_MAX: ClassVar[int] = TRANSACTION_BYTES_MAX


@dataclass(frozen=True, slots=True)
class SetTopic(TransactionPart):
    """An admin creates a topic or changes it: for everybody from this point of the order on."""

    KIND: ClassVar[str] = "set-topic"

    topic: str
    partitions: int
    validated: bool

    def write(self, writer: Writer) -> None:
        """Appends the topic."""
        writer.text(self.topic)
        writer.u32(self.partitions)
        writer.flag(self.validated)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Takes the topic."""
        return cls(reader.text(), reader.u32(), reader.flag())


@dataclass(frozen=True, slots=True)
class RegisterKey(TransactionPart):
    """An admin registers a client's key: the first, or one in place of a lost one.

    `possession` is the new key's own signature over `possession_bytes`.
    """

    KIND: ClassVar[str] = "register-key"

    name: str
    key_epoch: int
    public: bytes
    possession: bytes

    def write(self, writer: Writer) -> None:
        """Appends the key."""
        writer.text(self.name)
        writer.u32(self.key_epoch)
        writer.fixed(self.public, PUBLIC_KEY_BYTES)
        writer.signature(self.possession)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Takes the key."""
        return cls(reader.text(), reader.u32(), reader.fixed(PUBLIC_KEY_BYTES), reader.signature())


@dataclass(frozen=True, slots=True)
class RotateKey(TransactionPart):
    """The author's next key; the one that signs this is the last act of its epoch."""

    KIND: ClassVar[str] = "rotate-key"

    public: bytes
    possession: bytes

    def write(self, writer: Writer) -> None:
        """Appends the key."""
        writer.fixed(self.public, PUBLIC_KEY_BYTES)
        writer.signature(self.possession)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Takes the key."""
        return cls(reader.fixed(PUBLIC_KEY_BYTES), reader.signature())


@dataclass(frozen=True, slots=True)
class RevokeKey(TransactionPart):
    """An admin, or the owner, ends a key."""

    KIND: ClassVar[str] = "revoke-key"

    name: str
    key_epoch: int

    def write(self, writer: Writer) -> None:
        """Appends which key."""
        writer.text(self.name)
        writer.u32(self.key_epoch)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Takes which key."""
        return cls(reader.text(), reader.u32())


@dataclass(frozen=True, slots=True)
class JoinGroup(TransactionPart):
    """The author's consumer `instance` joins a group, or changes its topics; they ascend."""

    KIND: ClassVar[str] = "join-group"

    group: str
    instance: str
    topics: tuple[str, ...]
    session_ms: int

    def write(self, writer: Writer) -> None:
        """Appends the membership."""
        writer.text(self.group)
        writer.text(self.instance)
        writer.items(self.topics, TOPICS_MAX, writer.text)
        writer.u32(self.session_ms)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Takes the membership."""
        group, instance = reader.text(), reader.text()
        topics = reader.items(TOPICS_MAX, reader.text)
        require_ascending(topics, "topics")
        return cls(group, instance, topics, reader.u32())


@dataclass(frozen=True, slots=True)
class LeaveGroup(TransactionPart):
    """The author's consumer `instance` leaves a group."""

    KIND: ClassVar[str] = "leave-group"

    group: str
    instance: str

    def write(self, writer: Writer) -> None:
        """Appends who leaves what."""
        writer.text(self.group)
        writer.text(self.instance)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Takes who leaves what."""
        return cls(reader.text(), reader.text())


Offset = tuple[str, int, int]
"""A topic, a partition, and the index of the next event to read there."""


@dataclass(frozen=True, slots=True)
class CommitOffsets(TransactionPart):
    """How far a member of a group has read; without offsets it only says that the member is alive."""

    KIND: ClassVar[str] = "commit-offsets"

    group: str
    instance: str
    generation: int
    offsets: tuple[Offset, ...]

    def write(self, writer: Writer) -> None:
        """Appends the offsets."""

        def write_offset(offset: Offset) -> None:
            topic, partition, index = offset
            writer.text(topic)
            writer.u32(partition)
            writer.u64(index)

        writer.text(self.group)
        writer.text(self.instance)
        writer.u64(self.generation)
        writer.items(self.offsets, OFFSETS_MAX, write_offset)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Takes the offsets; topics and partitions ascend."""
        group, instance, generation = reader.text(), reader.text(), reader.u64()
        offsets = reader.items(OFFSETS_MAX, lambda: (reader.text(), reader.u32(), reader.u64()))
        require_ascending([offset[:2] for offset in offsets], "offsets")
        return cls(group, instance, generation, offsets)


@dataclass(frozen=True, slots=True)
class LowWater(TransactionPart):
    """An admin lets go of the events before an index; reading them is an error from here on."""

    KIND: ClassVar[str] = "low-water"

    topic: str
    partition: int
    index: int

    def write(self, writer: Writer) -> None:
        """Appends the mark."""
        writer.text(self.topic)
        writer.u32(self.partition)
        writer.u64(self.index)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Takes the mark."""
        return cls(reader.text(), reader.u32(), reader.u64())


@dataclass(frozen=True, slots=True)
class Hole(TransactionPart):
    """An admitted batch, by where it begins, that cannot be had; as an admin's action it is skipped."""

    KIND: ClassVar[str] = "hole"

    topic: str
    partition: int
    first_index: int
    digest: bytes

    def write(self, writer: Writer) -> None:
        """Appends which batch."""
        writer.text(self.topic)
        writer.u32(self.partition)
        writer.u64(self.first_index)
        writer.digest(self.digest)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Takes which batch."""
        return cls(reader.text(), reader.u32(), reader.u64(), reader.digest())


Action = (
    SetTopic
    | RegisterKey
    | RotateKey
    | RevokeKey
    | JoinGroup
    | LeaveGroup
    | CommitOffsets
    | LowWater
    | Hole
)
_KINDS: tuple[type[Action], ...] = (
    SetTopic,
    RegisterKey,
    RotateKey,
    RevokeKey,
    JoinGroup,
    LeaveGroup,
    CommitOffsets,
    LowWater,
    Hole,
)
_TAGS: Mapping[bytes, type[Action]] = {domain_tag(kind.KIND): kind for kind in _KINDS}


def decode_action(data: bytes) -> Action:
    """The action with this encoding, of whichever kind."""
    return decode_one_of(_TAGS, data)
