"""Proof that the ledger holds a client's key with its span of heights.

A block's header holds the hash of the state before it, and a certificate covers the header. A Merkle path
from the key's entry to that hash therefore shows, with the genesis alone, which key a producer had, since
when and until when. Entries are never removed, so a proof from any later block works as well, and also
shows whether the key has ended since.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Annotated

from veristream.kabis.ledger.state import (
    KEYS_SECTION,
    SECTIONS,
    Key,
    SectionRoot,
    Tree,
    encode_key,
    hash_entry,
    hash_sections,
    section_roots,
)
from veristream.kabis.protocol.codec import Coded
from veristream.kabis.protocol.fields import U64, exactly
from veristream.kabis.protocol.merkle import MerklePath, ProofError, prove_inclusion, verify_inclusion


@dataclass(frozen=True, slots=True)
class KeyProof(Coded, kind="key-proof", bytes_max=8192):
    """A key's entry, its Merkle path among the keys, and the roots of all sections of the state."""

    key: Key
    index: U64
    path: MerklePath
    roots: Annotated[tuple[SectionRoot, ...], exactly(SECTIONS)]

    def verify(self, name: str, key_epoch: int, state: bytes) -> None:
        """Raises ProofError unless the state with this hash has the key under this name and epoch."""
        if hash_sections(self.roots) != state:
            raise ProofError("the sections do not match the state hash in the block's header")
        count, root = self.roots[KEYS_SECTION]
        leaf = hash_entry(encode_key((name, key_epoch)), self.key)
        verify_inclusion(leaf, self.index, count, self.path, root)


def prove_key(trees: tuple[Tree, ...], name: str, key_epoch: int) -> KeyProof | None:
    """Returns the proof that the hashed state holds a key; None if it does not."""
    tree = trees[KEYS_SECTION]
    encoded = encode_key((name, key_epoch))
    index = bisect_left(tree.keys, encoded)
    if index == len(tree.keys) or tree.keys[index] != encoded:
        return None
    key = tree.values[index]
    assert isinstance(key, Key), "the section of the keys holds keys"
    return KeyProof(key, index, prove_inclusion(tree.hashes, index), section_roots(trees))
