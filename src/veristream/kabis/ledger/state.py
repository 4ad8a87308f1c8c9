"""The ledger's state: tables whose changes are pending until committed, under one hash.

Each entry of a table in `LEAVES` is a leaf of the state's trie (`leaves`), whose root every block holds, so
that a snapshot or a proof of an entry is verified against a certificate. The other tables are derived from
those. Chains of protocol version 1 hash the state in another way (`sections`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any

from veristream.kabis.ledger.access import Closing, RuleKey, Span, derive_access
from veristream.kabis.ledger.groups import (
    Group,
    GroupHead,
    Member,
    MemberId,
    Presence,
    Roster,
    Subscription,
)
from veristream.kabis.ledger.tables import KeyType, Table, TableKey, Value, encode_key
from veristream.kabis.protocol.actions import Quota, Retention
from veristream.kabis.protocol.batch import SignedHeader
from veristream.kabis.protocol.codec import Coded, DecodeError
from veristream.kabis.protocol.fields import U16, U32, U64, Digest, Name, PublicKey, at_most
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.members import Members
from veristream.kabis.protocol.receipts import PARTIES_MAX


@dataclass(frozen=True, slots=True)
class Topic(Coded, kind="topic"):
    """A topic's policy."""

    partitions: U32
    validated: bool


class Ending(Enum):
    """Why a key is no longer valid."""

    REVOKED = 1
    REPLACED = 2
    FENCED = 3
    """Its owner signed two batches with the same sequence number."""


@dataclass(frozen=True, slots=True)
class Key(Coded, kind="key", bytes_max=256):
    """A client's key of one epoch, valid above its registered height, up to the height where it ended."""

    public: PublicKey
    registered_height: U64
    ended_height: U64 | None = None
    ending: Ending | None = None

    def valid_at(self, height: int) -> bool:
        """Returns whether a block of this height may admit what the key signed.

        The state before a block decides for the whole block, so a change takes effect with the next block.
        """
        return self.registered_height < height and (
            self.ended_height is None or height <= self.ended_height
        )

    def check(self) -> None:
        """Raises DecodeError unless the key has both an ended height and a reason, or neither."""
        if (self.ended_height is None) != (self.ending is None):
            raise DecodeError("a key needs both an ended height and a reason, or neither")


@dataclass(frozen=True, slots=True)
class Account(Coded, kind="account"):
    """An admin or client: its latest key epoch, its last action, and the number of groups it created."""

    key_epoch: U32
    number: U64
    last: Digest
    groups: U32


@dataclass(frozen=True, slots=True)
class Cursor(Coded, kind="cursor"):
    """A producer's position in a partition: the next sequence number, and its last batch."""

    next_sequence: U64
    last: Digest
    last_first_sequence: U64


@dataclass(frozen=True, slots=True)
class Partition(Coded, kind="partition"):
    """A partition: the next index, the first readable one, and a hash chain over its history.

    `oldest` is the first index of the oldest batch kept; it may be below the low-water mark.
    """

    next_index: U64
    low_water: U64
    oldest: U64
    chain: Digest


@dataclass(frozen=True, slots=True)
class Index(Coded, kind="index"):
    """An index in a partition."""

    index: U64


@dataclass(frozen=True, slots=True)
class Accusation(Coded, kind="accusation"):
    """The transaction with this digest, at this height, proves somebody's fault."""

    height: U64
    transaction: Digest


@dataclass(frozen=True, slots=True)
class Admission(Coded, kind="admission"):
    """An admitted batch: its position, the parties that stored it, and whether it is a hole.

    `earlier_sequence` is the first sequence number of the producer's previous batch, if there is one.
    """

    first_index: U64
    signed: SignedHeader
    digest: Digest
    parties: Annotated[tuple[Name, ...], at_most(PARTIES_MAX)]
    height: U64
    time_ms: U64
    earlier_sequence: U64 | None
    skipped: bool = False

    @property
    def next_index(self) -> int:
        """The index after its last event."""
        return self.first_index + self.signed.header.count


@dataclass(frozen=True, slots=True)
class Protocol(Coded, kind="protocol"):
    """The protocol version in force, and the one that an admin scheduled for a height, if any."""

    version: U16
    next_version: U16 | None = None
    next_height: U64 | None = None

    def check(self) -> None:
        """Raises DecodeError unless a next version has a height."""
        if (self.next_version is None) != (self.next_height is None):
            raise DecodeError("a next version needs a height")


StateChange = tuple[str, TableKey, Any]
"""The name of a table, a key, and its new value; None if it was removed."""

LEAVES: dict[str, tuple[type[Coded], tuple[type, ...]]] = {
    "protocol": (Protocol, ()),
    "keys": (Key, (str, int)),
    "accounts": (Account, (str,)),
    "topics": (Topic, (str,)),
    "retentions": (Retention, (str,)),
    "partitions": (Partition, (str, int)),
    "admissions": (Admission, (str, int, int)),
    "cursors": (Cursor, (str, str, int)),
    "groups": (GroupHead, (str,)),
    "members": (Presence, (str, str, str)),
    "subscriptions": (Subscription, (str, str, str)),
    "offsets": (Index, (str, str, int)),
    "accusations": (Accusation, (str, str)),
    "rules": (Span, (int, str, int, str)),
    "roles": (Span, (str, str)),
    "closing": (Closing, ()),
    "quotas": (Quota, ()),
    "memberships": (Members, (int,)),
}
"""The tables whose entries are leaves: the class of their values, and the types of the parts of their keys.

A new kind of setting is a table of `State` and a line here.
"""


NO_QUOTA = Quota(0, 0, 0)
PRESENCE_BYTES = 64


def size_of(key: tuple[str, str, str], subscription: Subscription) -> int:
    """Returns how many bytes a member adds to the state: its presence, its subscription, and their keys."""
    return PRESENCE_BYTES + 2 * len(encode_key(key)) + len(subscription.encode())


def _table() -> Table[KeyType, Value]:
    return Table()


@dataclass(slots=True)
class State:
    """Everything that validators agree on. The last eight tables are derived from the others."""

    protocol: Table[tuple[()], Protocol] = field(default_factory=_table)
    keys: Table[tuple[str, int], Key] = field(default_factory=_table)
    accounts: Table[str, Account] = field(default_factory=_table)
    topics: Table[str, Topic] = field(default_factory=_table)
    retentions: Table[str, Retention] = field(default_factory=_table)
    partitions: Table[tuple[str, int], Partition] = field(default_factory=_table)
    admissions: Table[tuple[str, int, int], Admission] = field(default_factory=_table)
    cursors: Table[tuple[str, str, int], Cursor] = field(default_factory=_table)
    groups: Table[str, GroupHead] = field(default_factory=_table)
    members: Table[tuple[str, str, str], Presence] = field(default_factory=_table)
    subscriptions: Table[tuple[str, str, str], Subscription] = field(default_factory=_table)
    offsets: Table[tuple[str, str, int], Index] = field(default_factory=_table)
    accusations: Table[tuple[str, str], Accusation] = field(default_factory=_table)
    rules: Table[RuleKey, Span] = field(default_factory=_table)
    roles: Table[tuple[str, str], Span] = field(default_factory=_table)
    closing: Table[tuple[()], Closing] = field(default_factory=_table)
    quotas: Table[tuple[()], Quota] = field(default_factory=_table)
    memberships: Table[int, Members] = field(default_factory=_table)
    """The members by the height from which they are in force; the founding ones are in the genesis."""

    publics: Table[bytes, tuple[str, int]] = field(default_factory=_table)
    sequences: Table[tuple[str, str, int, int], int] = field(default_factory=_table)
    rosters: Table[str, Roster] = field(default_factory=_table)
    kept: Table[tuple[str, int], int] = field(default_factory=_table)
    """The number of batches kept in each partition."""
    guards: Table[tuple[int, str], int] = field(default_factory=_table)
    """The height of the first rule of each pattern."""
    lengths: Table[tuple[int], tuple[int, ...]] = field(default_factory=_table)
    """How long the prefixes of patterns are, for each kind of resource."""
    held: Table[str, tuple[str, ...]] = field(default_factory=_table)
    subscribed: Table[str, int] = field(default_factory=_table)
    """What each client's members add to the state, in bytes, as `size_of` counts them."""

    def commit(self) -> list[StateChange]:
        """Keeps all pending changes, and returns those of leaves."""
        changes = [(name, key, value) for name in LEAVES for key, value in getattr(self, name).changes()]
        for table in self.tables():
            table.commit()
        return changes

    def discard(self) -> None:
        """Drops all pending changes."""
        for table in self.tables():
            table.discard()

    def tables(self) -> Iterator[Table[Any, Any]]:
        """Iterates over all tables."""
        return (getattr(self, name) for name in self.__slots__)

    def entries(self) -> Iterator[StateChange]:
        """Iterates over all leaves, as if each had just been put."""
        return ((name, key, value) for name in LEAVES for key, value in getattr(self, name).items())

    @property
    def version(self) -> int:
        """The protocol version in force."""
        protocol = self.protocol.get(())
        return 1 if protocol is None else protocol.version

    @property
    def quota(self) -> Quota:
        """What each client may have."""
        return self.quotas.get(()) or NO_QUOTA

    def members_at(self, genesis: Genesis, height: int) -> Members:
        """Returns the validators and storage parties in force at a height, as far as they are ordered."""
        begun = max((begin for begin, _ in self.memberships.items() if begin <= height), default=None)
        members = None if begun is None else self.memberships.get(begun)
        return members or genesis.members

    def group(self, name: str) -> Group:
        """Returns a consumer group whole; one that nobody joined has no members and generation 0."""
        head, roster = self.groups.get(name), self.rosters.get(name)
        if head is None or roster is None:
            return Group(0, ())
        members = (self.member(name, member_id) for member_id in sorted(roster.subscriptions))
        return Group(head.generation, tuple(member for member in members if member is not None))

    def member(self, group: str, member_id: MemberId) -> Member | None:
        """Returns a member of a group, or None."""
        presence = self.members.get((group, *member_id))
        subscription = self.subscriptions.get((group, *member_id))
        if presence is None or subscription is None:
            return None
        return Member(*member_id, subscription.topics, presence.session_ms, presence.seen_ms)

    def derive(self) -> None:
        """Fills the derived tables from the others."""
        derive_access(self)
        for (name, key_epoch), key in self.keys.items():
            self.publics.put(key.public, (name, key_epoch))
        for (topic, partition, index), admission in self.admissions.items():
            header = admission.signed.header
            self.sequences.put((header.producer, topic, partition, header.first_sequence), index)
            self.kept.put((topic, partition), (self.kept.get((topic, partition)) or 0) + 1)
        read: dict[str, dict[tuple[str, str], tuple[str, ...]]] = {
            name: {} for name, _ in self.groups.items()
        }
        for (group, name, instance), subscription in self.subscriptions.items():
            read.setdefault(group, {})[name, instance] = subscription.topics
            size = size_of((group, name, instance), subscription)
            self.subscribed.put(name, (self.subscribed.get(name) or 0) + size)
        for group, subscriptions in read.items():
            self.rosters.put(group, Roster(subscriptions))
