"""A persistent Merkle trie: the authenticated set of leaves under one root.

The place of a leaf is the SHA-256 hash of its key; its bits lead from the root to the leaf. It is compact:
a subtree with a single leaf is that leaf, and an empty one has a fixed digest. So the root depends on the
leaves alone, not on the order of changes. Nodes are immutable: `update` shares all subtrees without a
change, and whoever holds a root has a frozen copy.

Leaves, branches and the empty trie are hashed behind different bytes, so that none passes for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Annotated, Any, NamedTuple

from veristream.kabis.protocol.fields import Digest, at_most
from veristream.kabis.protocol.merkle import ProofError

PLACE_BITS = 256
_LEAF = b"\x00"
_BRANCH = b"\x01"
EMPTY = sha256(b"\x02").digest()
"""The root of the trie without leaves."""

TriePath = Annotated[tuple[Digest, ...], at_most(PLACE_BITS)]
"""The digests beside the way from the root down to a leaf."""


class Leaf(NamedTuple):
    """A leaf; `entry` is what the digest covers, in whatever form its owner keeps it."""

    place: int
    digest: bytes
    entry: Any


class Branch(NamedTuple):
    """A node with at least two leaves below it; it may have all of them on one side."""

    left: Node
    right: Node
    digest: bytes
    leaves: int


Node = Leaf | Branch | None
"""The root of a trie; None is the trie without leaves."""

Change = tuple[int, Leaf | None]
"""A place and the leaf that it has from now on, if any."""


def place_of(key: bytes) -> int:
    """Returns the place of the leaf with this key."""
    return int.from_bytes(sha256(key).digest(), "big")


def hash_leaf(key: bytes, value: bytes) -> bytes:
    """Returns the digest of a leaf."""
    return sha256(_LEAF + len(key).to_bytes(4, "big") + key + value).digest()


def root_of(node: Node) -> bytes:
    """Returns the digest of a trie."""
    return EMPTY if node is None else node.digest


def count_leaves(node: Node) -> int:
    """Returns the number of leaves."""
    match node:
        case None:
            return 0
        case Leaf():
            return 1
        case Branch():
            return node.leaves


def iterate_leaves(node: Node) -> Iterator[Leaf]:
    """Iterates over the leaves, in ascending order of their places."""
    waiting = [node]
    while waiting:
        match waiting.pop():
            case Leaf() as leaf:
                yield leaf
            case Branch(left, right):
                waiting += (right, left)


def update(node: Node, changes: Iterable[Change]) -> Node:
    """Returns the trie with all changes, each at another place, in one pass."""
    return _update(node, list(changes), PLACE_BITS - 1)


def prove(node: Node, place: int) -> tuple[Leaf, tuple[bytes, ...]] | None:
    """Returns the leaf at a place with its path; None if there is no leaf."""
    path = []
    bit = PLACE_BITS - 1
    while isinstance(node, Branch):
        node, beside = (node.right, node.left) if place >> bit & 1 else (node.left, node.right)
        path.append(root_of(beside))
        bit -= 1
    return None if node is None or node.place != place else (node, tuple(path))


def verify_leaf(place: int, digest: bytes, path: Sequence[bytes], root: bytes) -> None:
    """Raises ProofError unless the path leads from the leaf with this digest to the root."""
    if len(path) > PLACE_BITS:
        raise ProofError("the path is too long")
    bit = PLACE_BITS - len(path)
    for beside in reversed(path):
        digest = _hash_branch(beside, digest) if place >> bit & 1 else _hash_branch(digest, beside)
        bit += 1
    if digest != root:
        raise ProofError("the path leads to another root")


def _update(node: Node, changes: list[Change], bit: int) -> Node:
    if not changes:
        return node
    match node:
        case Branch(left, right):
            before = [change for change in changes if not change[0] >> bit & 1]
            after = [change for change in changes if change[0] >> bit & 1]
            return _join(_update(left, before, bit - 1), _update(right, after, bit - 1))
        case Leaf():
            leaves = dict(changes)
            leaves.setdefault(node.place, node)
            return _build([leaf for leaf in leaves.values() if leaf is not None], bit)
        case None:
            return _build([leaf for _, leaf in changes if leaf is not None], bit)


def _build(leaves: list[Leaf], bit: int) -> Node:
    if len(leaves) < 2:
        return leaves[0] if leaves else None
    left = _build([leaf for leaf in leaves if not leaf.place >> bit & 1], bit - 1)
    return _join(left, _build([leaf for leaf in leaves if leaf.place >> bit & 1], bit - 1))


def _join(left: Node, right: Node) -> Node:
    if left is None and not isinstance(right, Branch):
        return right
    if right is None and not isinstance(left, Branch):
        return left
    digest = _hash_branch(root_of(left), root_of(right))
    return Branch(left, right, digest, count_leaves(left) + count_leaves(right))


def _hash_branch(left: bytes, right: bytes) -> bytes:
    return sha256(_BRANCH + left + right).digest()
