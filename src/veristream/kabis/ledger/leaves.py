"""The state as leaves of a trie, in protocol version 2: their encoding, and the root over them.

A leaf's key is the name of its table and the key there; its value is the encoding of the entry.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from veristream.kabis.ledger.state import LEAVES, State, StateChange
from veristream.kabis.ledger.tables import KEY_BYTES_MAX, TableKey, decode_key, encode_key
from veristream.kabis.ledger.trie import Leaf, Node, hash_leaf, place_of, root_of, update
from veristream.kabis.protocol.codec import Coded, DecodeError

LEAF_BYTES_MAX = 1 << 19
"""More than any leaf has; the largest holds the topics of a member of a group."""


class Leaves:
    """The trie over the leaves of a state of version 2."""

    __slots__ = ("_node",)

    def __init__(self, node: Node = None) -> None:
        self._node = node

    def take(self, state: State, changes: Iterable[StateChange]) -> None:
        """Notes changes that the state has kept."""
        self._node = update(self._node, [_to_change(*change) for change in changes])

    def root(self) -> bytes:
        """Returns the hash of the state."""
        return root_of(self._node)

    def freeze(self) -> Node:
        """Returns the trie as it is now, which later changes leave alone."""
        return self._node


def encode_leaf_key(table: str, key: TableKey) -> bytes:
    """Returns the key of a leaf."""
    return encode_key((table, *key) if isinstance(key, tuple) else (table, key))


def encode_leaf(entry: StateChange) -> tuple[bytes, bytes]:
    """Returns the key and the value of a leaf."""
    table, key, value = entry
    return encode_leaf_key(table, key), value.encode()


def decode_leaf(key: bytes, value: bytes) -> StateChange:
    """Returns the entry with this leaf; raises DecodeError."""
    if len(key) > KEY_BYTES_MAX or len(value) > LEAF_BYTES_MAX:
        raise DecodeError("a leaf is too long")
    table, *parts = decode_key(key) or ("",)
    if not isinstance(table, str) or table not in LEAVES:
        raise DecodeError(f"the state has no table {table!r}")
    kind, types = LEAVES[table]
    if tuple(map(type, parts)) != types:
        raise DecodeError(f"not a key of the table {table}")
    return table, _to_table_key(parts), kind.decode(value)


def make_leaf(entry: StateChange) -> Leaf:
    """Returns the leaf of an entry."""
    key, value = encode_leaf(entry)
    return Leaf(place_of(key), hash_leaf(key, value), entry)


def _to_table_key(parts: list[Any]) -> TableKey:
    return parts[0] if len(parts) == 1 else tuple(parts)


def _to_change(table: str, key: TableKey, value: Coded | None) -> tuple[int, Leaf | None]:
    if value is None:
        return place_of(encode_leaf_key(table, key)), None
    leaf = make_leaf((table, key, value))
    return leaf.place, leaf
