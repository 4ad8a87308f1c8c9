"""Actions of admins and clients, from topics and keys to rights and members; `Signed` carries each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter, itemgetter
from typing import Annotated, get_args

from veristream.kabis.protocol.blocks import TRANSACTION_BYTES_MAX
from veristream.kabis.protocol.codec import NAME_BYTES_MAX, Coded, decode_one_of, domain_tag
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
from veristream.kabis.protocol.members import Members, Possession, is_name
from veristream.kabis.protocol.receipts import PARTIES_MAX

TOPICS_MAX = 1000
OFFSETS_MAX = 1000
EVERYBODY = "*"
ANY = "*"
"""What a pattern ends with that is a prefix."""
ROLE = "role:"
"""What the name of a role begins with where a client's name may stand too."""

_PREFIX = re.compile(rf"[A-Za-z0-9._-]{{0,{NAME_BYTES_MAX - 1}}}\*")


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


class Resource(Enum):
    """What a right is about."""

    TOPIC = 1
    GROUP = 2


class Operation(Enum):
    """What a right allows: to read, to write, or to change a topic and release its events."""

    READ = 1
    WRITE = 2
    ADMINISTER = 3


@dataclass(frozen=True, slots=True)
class Right:
    """What a client needs for a request."""

    resource: Resource
    name: str
    operation: Operation

    def __str__(self) -> str:
        return f"{self.operation.name.lower()} on the {self.resource.name.lower()} {self.name}"


@dataclass(frozen=True, slots=True)
class Rule(Coded, kind="access-rule"):
    """Who may do what with the topics or groups of a pattern.

    The pattern is a name, a prefix that ends with `*`, or `*` alone. `who` is the name of a client, `role:`
    and the name of a role, or `*` for everybody.
    """

    resource: Resource
    pattern: Name
    operation: Operation
    who: Name

    def __str__(self) -> str:
        resource = self.resource.name.lower()
        return f"{self.operation.name.lower()} on the {resource} {self.pattern} for {self.who}"

    def find_problem(self) -> str:
        """Returns what is wrong with the rule, in words; empty if nothing is."""
        if not is_name(self.pattern) and _PREFIX.fullmatch(self.pattern) is None:
            return f"{self.pattern!r} is neither a name, nor a prefix that ends with '*'"
        role = self.who.removeprefix(ROLE)
        if self.who != EVERYBODY and (not is_name(role) or len(self.who) > NAME_BYTES_MAX):
            return f"{self.who!r} is neither a client, nor '{ROLE}' and the name of a role, nor '*'"
        if self.resource is Resource.GROUP and self.operation is not Operation.READ:
            return "the only right on a group is to read"
        return ""


@dataclass(frozen=True, slots=True)
class Grant(TransactionPart, kind="grant"):
    """An admin gives a right, in force from the next block on."""

    rule: Rule


@dataclass(frozen=True, slots=True)
class Revoke(TransactionPart, kind="revoke"):
    """An admin takes a right back, from the next block on."""

    rule: Rule


@dataclass(frozen=True, slots=True)
class SetRole(TransactionPart, kind="set-role"):
    """An admin gives a client a role, or takes it back."""

    name: Name
    role: Name
    held: bool


@dataclass(frozen=True, slots=True)
class SetClosed(TransactionPart, kind="set-closed"):
    """An admin closes the ledger, where nobody may do what no rule allows, or opens it."""

    closed: bool


@dataclass(frozen=True, slots=True)
class Quota(TransactionPart, kind="quota"):
    """What each client may have: groups that it created, topics of a member, transactions in a block.

    0 is no limit but the ledger's own.
    """

    groups: U32
    topics: U32
    transactions: U32


@dataclass(frozen=True, slots=True)
class SetQuota(TransactionPart, kind="set-quota"):
    """An admin limits what each client may have."""

    quota: Quota


@dataclass(frozen=True, slots=True)
class SetMembers(TransactionPart, kind="set-members"):
    """An admin sets the validators and storage parties, in force from the block at a later height on.

    Each member whose key is new in its role signs `member_possession_bytes` with it; `possessions` are
    those signatures.
    """

    members: Members
    height: U64
    possessions: Annotated[
        tuple[Possession, ...], at_most(2 * PARTIES_MAX), ascending("possessions", attrgetter("place"))
    ]


AccessAction = Grant | Revoke | SetRole | SetClosed

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
    | Grant
    | Revoke
    | SetRole
    | SetClosed
    | SetQuota
    | SetMembers
)
_TAGS: Mapping[bytes, type[Action]] = {domain_tag(kind.KIND): kind for kind in get_args(Action)}


def decode_action(data: bytes) -> Action:
    """Returns the action of any kind with this encoding; raises DecodeError."""
    return decode_one_of(_TAGS, data)


def patterns_of(name: str, lengths: Iterable[int]) -> tuple[str, ...]:
    """Returns all patterns that match a name and have prefixes of these lengths."""
    return (name, *(name[:length] + ANY for length in lengths if length <= len(name)))


def to_read(topic: str) -> Right:
    """Returns the right to read a topic."""
    return Right(Resource.TOPIC, topic, Operation.READ)


def to_write(topic: str) -> Right:
    """Returns the right to write to a topic."""
    return Right(Resource.TOPIC, topic, Operation.WRITE)


def to_administer(topic: str) -> Right:
    """Returns the right to change a topic."""
    return Right(Resource.TOPIC, topic, Operation.ADMINISTER)


def to_join(group: str) -> Right:
    """Returns the right to join a group and commit its offsets."""
    return Right(Resource.GROUP, group, Operation.READ)
