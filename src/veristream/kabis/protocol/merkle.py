"""Merkle trees as in RFC 6962, section 2.1: leaves are hashed behind a 0 byte, nodes behind a 1 byte.

A tree over n leaves splits at the largest power of two below n. This code pairs hashes level by level and
passes an odd one on to the next level, which builds the same tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Annotated

from veristream.kabis.protocol.codec import Octets
from veristream.kabis.protocol.fields import Digest, at_most

LEAF = b"\x00"
NODE = b"\x01"
_BEGUN_LEAF = sha256(LEAF)
PATH_MAX = 64
"""The length of a path in a tree of 2**64 leaves, more than any tree has."""

MerklePath = Annotated[tuple[Digest, ...], at_most(PATH_MAX)]


class ProofError(Exception):
    """The path does not lead from the leaf to the root."""


def hash_leaf(leaf: bytes) -> bytes:
    """Returns the hash of a leaf."""
    return sha256(LEAF + leaf).digest()


def hash_leaves(leaves: Iterable[Octets]) -> list[bytes]:
    """Returns the hash of each leaf, without copying the leaf behind its prefix byte."""
    hashes = []
    for leaf in leaves:
        hasher = _BEGUN_LEAF.copy()
        hasher.update(leaf)
        hashes.append(hasher.digest())
    return hashes


def compute_root(hashes: Sequence[bytes]) -> bytes:
    """Returns the root over hashed leaves; the hash of the empty string if there are none."""
    if not hashes:
        return sha256(b"").digest()
    while len(hashes) > 1:
        hashes = _next_level(hashes)
    return hashes[0]


def prove_inclusion(hashes: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """Returns the path of the leaf at `index`, from the leaf up, in the order of RFC 6962."""
    if not 0 <= index < len(hashes):
        raise IndexError(f"no leaf {index} among {len(hashes)}")
    path = []
    while len(hashes) > 1:
        sibling = index ^ 1
        if sibling < len(hashes):
            path.append(hashes[sibling])
        hashes = _next_level(hashes)
        index >>= 1
    return tuple(path)


def verify_inclusion(leaf: bytes, index: int, count: int, path: Sequence[bytes], root: bytes) -> None:
    """Raises ProofError unless this hashed leaf is the one at `index` of the `count` under `root`."""
    if not 0 <= index < count:
        raise ProofError(f"there is no leaf {index} in a tree of {count}")
    hashed, last, steps = leaf, count - 1, iter(path)
    while last > 0:
        if index & 1 or index < last:
            sibling = next(steps, None)
            if sibling is None:
                raise ProofError("the path is too short")
            pair = sibling + hashed if index & 1 else hashed + sibling
            hashed = sha256(NODE + pair).digest()
        index >>= 1
        last >>= 1
    if next(steps, None) is not None:
        raise ProofError("the path is too long")
    if hashed != root:
        raise ProofError("the path leads to another root")


def _next_level(hashes: Sequence[bytes]) -> list[bytes]:
    pairs = [
        sha256(NODE + left + right).digest() for left, right in zip(hashes[::2], hashes[1::2], strict=False)
    ]
    if len(hashes) & 1:
        pairs.append(hashes[-1])
    return pairs
