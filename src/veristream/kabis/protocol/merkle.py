"""Merkle trees as in RFC 6962, section 2.1: leaves are hashed behind a 0 byte, nodes behind a 1 byte.

A tree over n leaves splits at the largest power of two below n. That is the same as pairing up level by
level and letting an odd one through to the next level, which is how it is done here.
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
"""More hashes than any path has: a tree of 2**64 leaves."""

MerklePath = Annotated[tuple[Digest, ...], at_most(PATH_MAX)]


class ProofError(Exception):
    """The path does not lead from the leaf to the root."""


def hash_leaf(leaf: bytes) -> bytes:
    """The hash that stands for one leaf."""
    return sha256(LEAF + leaf).digest()


def hash_leaves(leaves: Iterable[Octets]) -> list[bytes]:
    """The hash of each leaf, which is not put behind its byte, for that would copy it."""
    hashes = []
    for leaf in leaves:
        hasher = _BEGUN_LEAF.copy()
        hasher.update(leaf)
        hashes.append(hasher.digest())
    return hashes


def compute_root(hashes: Sequence[bytes]) -> bytes:
    """The root over hashed leaves; of none, the hash of nothing."""
    if not hashes:
        return sha256(b"").digest()
    while len(hashes) > 1:
        hashes = _next_level(hashes)
    return hashes[0]


def prove_inclusion(hashes: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """The path of the leaf at `index`, from the leaf up, as RFC 6962 orders it."""
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
