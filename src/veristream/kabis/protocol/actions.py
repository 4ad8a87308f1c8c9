"""Actions of admins and clients on topics, keys, consumer groups and marks; `Signed` carries each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Annotated, get_args

from veristream.kabis.protocol.blocks import TRANSACTION_BYTES_MAX
from veristream.kabis.protocol.codec import Coded, decode_one_of, domain_tag
from veristream.kabis.protocol.fields import (
    U16,
    U32,
    U64,
    Digest,
    Name,
    PublicKey,
    Signature,
    ascending,
    at_most,
)

TOPICS_MAX = 1000
OFFSETS_MAX = 1000


class TransactionPart(Coded, bytes_max=TRANSACTION_BYTES_MAX):
    """A value that must fit into a transaction."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class SetTopic(TransactionPart, kind="set-topic"):
    """An admin creates or changes a topic, for everybody from this point of the order on."""

    topic: Name
    partitions: U32
    validated: bool


@dataclass(frozen=True, slots=True)
class RegisterKey(TransactionPart, kind="register-key"):
    """An admin registers a client's first key, or replaces a lost one.

    `possession` is the new key's own signature over `possession_bytes`.
    """

    name: Name
    key_epoch: U32
    public: PublicKey
    possession: Signature


@dataclass(frozen=True, slots=True)
class RotateKey(TransactionPart, kind="rotate-key"):
    """The author's next key; signing this is the last act of the current one."""

    public: PublicKey
    possession: Signature


@dataclass(frozen=True, slots=True)
class RevokeKey(TransactionPart, kind="revoke-key"):
    """An admin or the owner revokes a key."""

    name: Name
    key_epoch: U32


@dataclass(frozen=True, slots=True)
class JoinGroup(TransactionPart, kind="join-group"):
    """The author's consumer `instance` joins a group or changes its topics, which ascend."""

    group: Name
    instance: Name
    topics: Annotated[tuple[Name, ...], at_most(TOPICS_MAX), ascending("topics")]
    session_ms: U32


@dataclass(frozen=True, slots=True)
class LeaveGroup(TransactionPart, kind="leave-group"):
    """The author's consumer `instance` leaves a group."""

    group: Name
    instance: Name


Offset = tuple[Name, U32, U64]
"""A topic, a partition, and the index of the next event to read there."""


@dataclass(frozen=True, slots=True)
class CommitOffsets(TransactionPart, kind="commit-offsets"):
    """Records how far a member of a group has read; without offsets it is a heartbeat."""

    group: Name
    instance: Name
    generation: U64
    offsets: Annotated[tuple[Offset, ...], at_most(OFFSETS_MAX), ascending("offsets", itemgetter(0, 1))]


@dataclass(frozen=True, slots=True)
class LowWater(TransactionPart, kind="low-water"):
    """An admin releases the events below an index; from here on, reading them is an error."""

    topic: Name
    partition: U32
    index: U64


@dataclass(frozen=True, slots=True)
class Hole(TransactionPart, kind="hole"):
    """An admitted batch, named by its first index, that is unavailable; as an admin's action, skips it."""

    topic: Name
    partition: U32
    first_index: U64
    digest: Digest


@dataclass(frozen=True, slots=True)
class Upgrade(TransactionPart, kind="upgrade"):
    """An admin activates a protocol version with the block at a later height."""

    version: U16
    height: U64


@dataclass(frozen=True, slots=True)
class Retention(TransactionPart, kind="retention"):
    """How much of each partition of a topic is kept: batches, and milliseconds; 0 is no limit."""

    batches: U64
    kept_ms: U64


@dataclass(frozen=True, slots=True)
class SetRetention(TransactionPart, kind="set-retention"):
    """An admin limits what each partition of a topic keeps."""

    topic: Name
    retention: Retention


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
    | Upgrade
    | SetRetention
)
_TAGS: Mapping[bytes, type[Action]] = {domain_tag(kind.KIND): kind for kind in get_args(Action)}


def decode_action(data: bytes) -> Action:
    """Returns the action of any kind with this encoding; raises DecodeError."""
    return decode_one_of(_TAGS, data)
