"""The hash of the state in protocol version 1: sections, each a Merkle tree over its sorted entries.

It does not cover admissions, but the hash chains of their partitions, and it encodes a group whole. Chains
that began with version 1 are read with it up to the height of their upgrade, and receipts from there are
verified with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from veristream.kabis.ledger.state import State, StateChange
from veristream.kabis.ledger.tables import KEY_BYTES_MAX, encode_key
from veristream.kabis.protocol.codec import Encoded, Writer
from veristream.kabis.protocol.fields import U64, Digest
from veristream.kabis.protocol.merkle import compute_root, hash_leaf

_NAMES = ("keys", "accounts", "topics", "partitions", "cursors", "groups", "offsets", "accusations")
_OF_GROUPS = ("groups", "members", "subscriptions")
SECTIONS = len(_NAMES)
KEYS_SECTION = 0
"""The position of the keys among the sections, on which receipts depend."""

SectionRoot = tuple[U64, Digest]
"""The number of entries in a section, and their Merkle root."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A hashed section: encoded keys, ascending, with their values and hashes, and the root."""

    keys: tuple[bytes, ...]
    values: tuple[Encoded, ...]
    hashes: tuple[bytes, ...]
    root: bytes


class Section:
    """The entries of a section by their encoded keys."""

    __slots__ = ("_entries", "_tree")

    def __init__(self) -> None:
        self._entries: dict[bytes, tuple[Encoded, bytes]] = {}
        self._tree: Tree | None = None

    def put(self, encoded: bytes, value: Encoded | None) -> None:
        """Sets or, with None, removes an entry."""
        if value is None:
            self._entries.pop(encoded, None)
        else:
            self._entries[encoded] = (value, hash_entry(encoded, value))
        self._tree = None

    def tree(self) -> Tree:
        """Returns the Merkle tree over the entries."""
        if self._tree is None:
            keys = tuple(sorted(self._entries))
            entries = [self._entries[key] for key in keys]
            hashes = tuple([hashed for _, hashed in entries])
            values = tuple([value for value, _ in entries])
            self._tree = Tree(keys, values, hashes, compute_root(hashes))
        return self._tree


class Sections:
    """The hash of a state of version 1."""

    __slots__ = ("_sections",)

    def __init__(self) -> None:
        self._sections = {name: Section() for name in _NAMES}

    def take(self, state: State, changes: Iterable[StateChange]) -> None:
        """Notes changes that the state has kept."""
        groups: dict[str, None] = {}
        for name, key, value in changes:
            if name in _OF_GROUPS:
                groups[str(key[0]) if isinstance(key, tuple) else str(key)] = None
            elif name in self._sections:
                self._sections[name].put(encode_key(key), value)
        for group in groups:
            self._sections["groups"].put(encode_key(group), state.group(group))

    def root(self) -> bytes:
        """Returns the hash of the state."""
        return hash_sections(section_roots(self.freeze()))

    def freeze(self) -> tuple[Tree, ...]:
        """Returns the sections as they are now, in their order."""
        return tuple(section.tree() for section in self._sections.values())


def hash_entry(encoded_key: bytes, value: Encoded) -> bytes:
    """Returns the hash of one entry of a section."""
    writer = Writer("state-entry")
    writer.blob(encoded_key, KEY_BYTES_MAX)
    writer.raw(value.encode())
    return hash_leaf(writer.to_bytes())


def hash_sections(roots: tuple[SectionRoot, ...]) -> bytes:
    """Returns the hash of a state with these sections, in their order."""
    writer = Writer("state")
    for count, root in roots:
        writer.u64(count)
        writer.digest(root)
    return sha256(writer.to_bytes()).digest()


def section_roots(trees: tuple[Tree, ...]) -> tuple[SectionRoot, ...]:
    """Returns the count and root of each section."""
    return tuple((len(tree.keys), tree.root) for tree in trees)
