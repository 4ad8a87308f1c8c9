"""The ledger's state: tables whose changes are pending until committed, and their hash.

The hash is over sections, each a Merkle tree over its entries in the order of their encoded keys. So it
depends only on the state, not on the history that led to it, and a Merkle path proves that the state holds
an entry: that is how a receipt shows that a producer's key was valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from typing import Any, Generic, TypeVar

from veristream.kabis.ledger.groups import Group
from veristream.kabis.protocol.batch import SignedHeader
from veristream.kabis.protocol.codec import PUBLIC_KEY_BYTES, Coded, DecodeError, Encoded, Writer
from veristream.kabis.protocol.fields import U32, U64, Digest, PublicKey
from veristream.kabis.protocol.merkle import compute_root, hash_leaf


@dataclass(frozen=True, slots=True)
class Topic(Encoded, kind="topic"):
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
class Account(Encoded, kind="account"):
    """An admin or client: its latest key epoch, its last action, and the number of groups it created."""

    key_epoch: U32
    number: U64
    last: Digest
    groups: U32


@dataclass(frozen=True, slots=True)
class Cursor(Encoded, kind="cursor"):
    """A producer's position in a partition: the next sequence number, and its last batch."""

    next_sequence: U64
    last: Digest
    last_first_sequence: U64


@dataclass(frozen=True, slots=True)
class Partition(Encoded, kind="partition"):
    """A partition: the next index, the first readable one, and a hash chain over its history.

    `oldest` is the first index of the oldest batch kept; it may be below the low-water mark.
    """

    next_index: U64
    low_water: U64
    oldest: U64
    chain: Digest


@dataclass(frozen=True, slots=True)
class Index(Encoded, kind="index"):
    """An index in a partition."""

    index: U64


@dataclass(frozen=True, slots=True)
class Accusation(Encoded, kind="accusation"):
    """The transaction with this digest, at this height, proves somebody's fault."""

    height: U64
    transaction: Digest


@dataclass(frozen=True, slots=True)
class Admission:
    """An admitted batch: its position, the parties that stored it, and whether it is a hole.

    `earlier_sequence` is the first sequence number of the producer's previous batch, if there is one.
    """

    first_index: int
    signed: SignedHeader
    digest: bytes
    parties: tuple[str, ...]
    height: int
    time_ms: int
    earlier_sequence: int | None
    skipped: bool = False

    @property
    def next_index(self) -> int:
        """The index after its last event."""
        return self.first_index + self.signed.header.count


KeyType = TypeVar("KeyType", bound=str | bytes | tuple[str | int, ...])
Value = TypeVar("Value")
EncodedValue = TypeVar("EncodedValue", bound=Encoded)


class Table(Generic[KeyType, Value]):
    """A map whose changes are visible at once, until `commit` keeps them or `discard` drops them."""

    __slots__ = ("_changes", "_kept")

    def __init__(self) -> None:
        self._kept: dict[KeyType, Value] = {}
        self._changes: dict[KeyType, Value | None] = {}

    def get(self, key: KeyType) -> Value | None:
        """Returns the value of a key, or None."""
        return self._changes[key] if key in self._changes else self._kept.get(key)

    def put(self, key: KeyType, value: Value) -> None:
        """Sets the value of a key."""
        self._changes[key] = value

    def drop(self, key: KeyType) -> None:
        """Removes a key."""
        self._changes[key] = None

    def items(self) -> Iterator[tuple[KeyType, Value]]:
        """Iterates over keys and values, in no particular order."""
        for key, value in self._kept.items():
            if key not in self._changes:
                yield key, value
        for key, changed in self._changes.items():
            if changed is not None:
                yield key, changed

    def commit(self) -> None:
        """Keeps the pending changes."""
        for key, value in self._changes.items():
            self._note(key, value)
            if value is None:
                self._kept.pop(key, None)
            else:
                self._kept[key] = value
        self._changes.clear()

    def discard(self) -> None:
        """Drops the pending changes."""
        self._changes.clear()

    def _note(self, key: KeyType, value: Value | None) -> None:
        """Called for each change that `commit` keeps."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A hashed section: encoded keys, ascending, with their values and hashes, and the root."""

    keys: tuple[bytes, ...]
    values: tuple[Encoded, ...]
    hashes: tuple[bytes, ...]
    root: bytes


class Section(Table[KeyType, EncodedValue]):
    """A table that is part of the state's hash."""

    __slots__ = ("_entries", "_tree")

    def __init__(self) -> None:
        super().__init__()
        self._entries: dict[bytes, tuple[EncodedValue, bytes]] = {}
        self._tree: Tree | None = None

    def tree(self) -> Tree:
        """Returns the Merkle tree over the kept entries, without pending changes."""
        if self._tree is None:
            keys = tuple(sorted(self._entries))
            entries = [self._entries[key] for key in keys]
            hashes = tuple([hashed for _, hashed in entries])
            values = tuple([value for value, _ in entries])
            self._tree = Tree(keys, values, hashes, compute_root(hashes))
        return self._tree

    def _note(self, key: KeyType, value: EncodedValue | None) -> None:
        encoded = encode_key(key)
        if value is None:
            self._entries.pop(encoded, None)
        else:
            self._entries[encoded] = (value, hash_entry(encoded, value))
        self._tree = None


STATE_NAME_BYTES_MAX = 1024
"""More than `NAME_BYTES_MAX`, since the name of an accused producer ends with its key epoch."""


def encode_key(key: str | bytes | tuple[str | int, ...]) -> bytes:
    """Returns the only encoding of a table's key."""
    writer = Writer("state-key")
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, str):
            writer.u8(1)
            writer.text(part, STATE_NAME_BYTES_MAX)
        elif isinstance(part, int):
            writer.u8(2)
            writer.u64(part)
        else:
            writer.u8(3)
            writer.blob(part, PUBLIC_KEY_BYTES)
    return writer.to_bytes()


def hash_entry(encoded_key: bytes, value: Encoded) -> bytes:
    """Returns the hash of one entry of a section."""
    writer = Writer("state-entry")
    writer.blob(encoded_key, 4096)
    writer.raw(value.encode())
    return hash_leaf(writer.to_bytes())


SectionRoot = tuple[U64, Digest]
"""The number of entries in a section, and their Merkle root."""


def hash_sections(roots: tuple[SectionRoot, ...]) -> bytes:
    """Returns the hash of a state with these sections, in their order."""
    writer = Writer("state")
    for count, root in roots:
        writer.u64(count)
        writer.digest(root)
    return sha256(writer.to_bytes()).digest()


SECTIONS = 8
KEYS_SECTION = 0
"""The position of the keys among the sections, on which receipts depend."""


def _section() -> Section[KeyType, EncodedValue]:
    return Section()


def _table() -> Table[KeyType, Value]:
    return Table()


@dataclass(slots=True)
class State:
    """Everything that validators agree on. The last three tables follow from the history of the others.

    The hash covers admissions through the hash chains of their partitions.
    """

    keys: Section[tuple[str, int], Key] = field(default_factory=_section)
    accounts: Section[str, Account] = field(default_factory=_section)
    topics: Section[str, Topic] = field(default_factory=_section)
    partitions: Section[tuple[str, int], Partition] = field(default_factory=_section)
    cursors: Section[tuple[str, str, int], Cursor] = field(default_factory=_section)
    groups: Section[str, Group] = field(default_factory=_section)
    offsets: Section[tuple[str, str, int], Index] = field(default_factory=_section)
    accusations: Section[tuple[str, str], Accusation] = field(default_factory=_section)

    publics: Table[bytes, tuple[str, int]] = field(default_factory=_table)
    admissions: Table[tuple[str, int, int], Admission] = field(default_factory=_table)
    sequences: Table[tuple[str, str, int, int], int] = field(default_factory=_table)

    def commit(self) -> None:
        """Keeps all pending changes."""
        self._each(Table.commit)

    def discard(self) -> None:
        """Drops all pending changes."""
        self._each(Table.discard)

    def trees(self) -> tuple[Tree, ...]:
        """Returns the hashed sections, in their order."""
        return (
            self.keys.tree(),
            self.accounts.tree(),
            self.topics.tree(),
            self.partitions.tree(),
            self.cursors.tree(),
            self.groups.tree(),
            self.offsets.tree(),
            self.accusations.tree(),
        )

    def _each(self, act: Callable[[Table[Any, Any]], None]) -> None:
        for name in self.__slots__:
            act(getattr(self, name))


def section_roots(trees: tuple[Tree, ...]) -> tuple[SectionRoot, ...]:
    """Returns the count and root of each section."""
    return tuple((len(tree.keys), tree.root) for tree in trees)
