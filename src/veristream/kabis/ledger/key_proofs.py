"""Proof that the ledger holds a client's key with its span of heights.

A block's header holds the hash of the state before it, and a certificate covers the header. A path from the
key's entry to that hash therefore shows, with the genesis alone, which key a producer had, since when and
until when. Entries are never removed, so a proof from any later block works as well, and also shows whether
the key has ended since.

There are two kinds, for the two ways to hash a state: by sections in protocol version 1, by a trie since.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Annotated, assert_never

from veristream.kabis.ledger.leaves import encode_leaf_key
from veristream.kabis.ledger.sections import (
    KEYS_SECTION,
    SECTIONS,
    SectionRoot,
    Tree,
    hash_entry,
    hash_sections,
    section_roots,
)
from veristream.kabis.ledger.state import Key
from veristream.kabis.ledger.tables import encode_key
from veristream.kabis.ledger.trie import Node, TriePath, hash_leaf, place_of, prove, verify_leaf
from veristream.kabis.protocol.codec import PUBLIC_KEY_BYTES, Coded, Reader, Writer
from veristream.kabis.protocol.fields import U64, by, exactly
from veristream.kabis.protocol.merkle import MerklePath, ProofError, prove_inclusion, verify_inclusion


@dataclass(frozen=True, slots=True)
class SectionKeyProof(Coded, kind="key-proof", bytes_max=8192):
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


@dataclass(frozen=True, slots=True)
class LeafKeyProof(Coded, kind="key-leaf-proof", bytes_max=16384):
    """A key's leaf, and its path in the trie of the state."""

    key: Key
    path: TriePath

    def verify(self, name: str, key_epoch: int, state: bytes) -> None:
        """Raises ProofError unless the state with this root has the key under this name and epoch."""
        key = encode_leaf_key("keys", (name, key_epoch))
        verify_leaf(place_of(key), hash_leaf(key, self.key.encode()), self.path, state)


_NO_KEY = bytes(PUBLIC_KEY_BYTES)
"""No key: the point is of small order. In place of the proof of a section, it announces that of a leaf."""


def _write_proof(writer: Writer, proof: SectionKeyProof | LeafKeyProof) -> None:
    match proof:
        case SectionKeyProof():
            if proof.key.public == _NO_KEY:
                raise ValueError("no key consists of zeros")
        case LeafKeyProof():
            writer.raw(_NO_KEY)
        case _:
            assert_never(proof)
    proof.write(writer)


def _read_proof(reader: Reader) -> SectionKeyProof | LeafKeyProof:
    return LeafKeyProof.read(reader) if reader.skip(_NO_KEY) else SectionKeyProof.read(reader)


KeyProof = Annotated[SectionKeyProof | LeafKeyProof, by(_write_proof, _read_proof)]


def prove_in_trie(node: Node, name: str, key_epoch: int) -> LeafKeyProof | None:
    """Returns the proof that a state of version 2 holds a key; None if it does not."""
    found = prove(node, place_of(encode_leaf_key("keys", (name, key_epoch))))
    if found is None:
        return None
    leaf, path = found
    return LeafKeyProof(leaf.entry[2], path)


def prove_in_sections(trees: tuple[Tree, ...], name: str, key_epoch: int) -> SectionKeyProof | None:
    """Returns the proof that a state of version 1 holds a key; None if it does not."""
    tree = trees[KEYS_SECTION]
    encoded = encode_key((name, key_epoch))
    index = bisect_left(tree.keys, encoded)
    if index == len(tree.keys) or tree.keys[index] != encoded:
        return None
    key = tree.values[index]
    assert isinstance(key, Key), "the section of the keys holds keys"
    return SectionKeyProof(key, index, prove_inclusion(tree.hashes, index), section_roots(trees))
