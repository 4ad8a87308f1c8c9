"""Snapshots: the state after a block, from which a validator, a storage party or a client starts.

The header of the following block holds the root of that state, and its certificate covers the header. So a
snapshot proves itself: whoever has the genesis rebuilds the trie from the leaves and compares the root. The
source is not trusted, and no earlier block is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated

from veristream.kabis.ledger.certified import CertifiedHeader, ReceiptError
from veristream.kabis.ledger.leaves import LEAF_BYTES_MAX, decode_leaf, encode_leaf
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.state import State
from veristream.kabis.ledger.succession import Handover, Handovers, Succession
from veristream.kabis.ledger.tables import KEY_BYTES_MAX
from veristream.kabis.ledger.trie import (
    Leaf,
    Node,
    count_leaves,
    hash_leaf,
    iterate_leaves,
    place_of,
    root_of,
    update,
)
from veristream.kabis.protocol.blocks import BlockHeader
from veristream.kabis.protocol.codec import Coded, DecodeError
from veristream.kabis.protocol.fields import U32, U64, at_most, blob
from veristream.kabis.protocol.genesis import VERSION_MAX, Genesis
from veristream.kabis.protocol.keys import Verify
from veristream.kabis.protocol.keys import verify as verify_signature
from veristream.kabis.protocol.members import Members

CHUNK_BYTES_MAX = 1 << 20
_CHUNK_ROOM = CHUNK_BYTES_MAX - 64
"""The room for leaves in a chunk, including eight bytes for the lengths of each."""

EncodedLeaf = tuple[Annotated[bytes, blob(KEY_BYTES_MAX)], Annotated[bytes, blob(LEAF_BYTES_MAX)]]


class FalseSnapshotError(Exception):
    """The snapshot is damaged, or it is not the state that a quorum certified; ask another party."""


@dataclass(frozen=True, slots=True)
class Chunk(Coded, kind="snapshot-chunk", bytes_max=CHUNK_BYTES_MAX):
    """A part of a snapshot: keys and values of leaves, in ascending order of their places."""

    number: U32
    leaves: Annotated[tuple[EncodedLeaf, ...], at_most(CHUNK_BYTES_MAX)]


@dataclass(frozen=True, slots=True)
class Manifest(Coded, kind="snapshot-manifest", bytes_max=1 << 22):
    """What a snapshot is: the block after which it was taken, the certified next one, and its size.

    The handovers show which validators were in force for the next one.
    """

    header: BlockHeader
    following: CertifiedHeader
    leaves: U64
    chunks: U32
    handovers: Handovers = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A frozen view of a ledger, which costs nothing: later blocks leave its nodes alone."""

    header: BlockHeader
    node: Node
    handovers: tuple[Handover, ...] = ()

    @staticmethod
    def take(ledger: Ledger) -> Snapshot:
        """Returns the view after the ledger's last block.

        Raises ValueError before the first block, and under protocol version 1, whose hash does not cover
        all of the state.
        """
        if ledger.last_header is None:
            raise ValueError("there is no block yet")
        header = ledger.last_header
        return Snapshot(header, ledger.freeze(), ledger.succession.until(header.height + 1))

    def chunks(self) -> Iterator[bytes]:
        """Iterates over the encoded chunks, each of at most `CHUNK_BYTES_MAX` bytes."""
        number, room = 0, _CHUNK_ROOM
        leaves: list[tuple[bytes, bytes]] = []
        for leaf in iterate_leaves(self.node):
            key, value = encode_leaf(leaf.entry)
            size = 8 + len(key) + len(value)
            if size > room:
                yield Chunk(number, tuple(leaves)).encode()
                number, room, leaves = number + 1, _CHUNK_ROOM, []
            leaves.append((key, value))
            room -= size
        yield Chunk(number, tuple(leaves)).encode()

    def describe(self, following: CertifiedHeader, chunks: int) -> Manifest:
        """Returns the manifest, given the certified next header and the number of chunks.

        Raises ValueError if the header is not the next one.
        """
        header = following.header
        if header.previous != self.header.block_id() or header.state != root_of(self.node):
            raise ValueError(f"block {header.height} does not follow the snapshot at {self.header.height}")
        return Manifest(self.header, following, count_leaves(self.node), chunks, self.handovers)


def restore(
    genesis: Genesis,
    manifest: Manifest,
    chunks: Iterable[bytes],
    verify: Verify = verify_signature,
    check: Verify | None = None,
) -> Ledger:
    """Returns the ledger after the snapshot's block; raises FalseSnapshotError.

    `verify` checks the votes of the certificate. `check` is what the ledger verifies later transactions
    with; without it, that is `verify` too.
    """
    succession = verify_manifest(genesis, manifest, verify)
    state, leaves = State(), list[Leaf]()
    last = -1
    for number, encoded in enumerate(chunks):
        if number >= manifest.chunks:
            raise FalseSnapshotError(f"it has more than {manifest.chunks} chunks")
        for leaf in _decode_chunk(encoded, number):
            if leaf.place <= last:
                raise FalseSnapshotError("its leaves are not in ascending order")
            last = leaf.place
            leaves.append(leaf)
            table, key, value = leaf.entry
            getattr(state, table).put(key, value)
        if len(leaves) > manifest.leaves:
            raise FalseSnapshotError(f"it has more than {manifest.leaves} leaves")
    node = update(None, ((leaf.place, leaf) for leaf in leaves))
    if root_of(node) != manifest.following.header.state:
        raise FalseSnapshotError("its leaves do not have the certified root")
    if not 2 <= state.version <= VERSION_MAX:
        known = f"this program knows up to {VERSION_MAX}"
        raise FalseSnapshotError(f"it is of protocol version {state.version}; {known}")
    ordered = dict(state.memberships.items())
    if any(ordered.get(each.height) != each.members for each in succession.handovers) or any(
        height <= manifest.header.height + 1 and height not in succession.heights for height in ordered
    ):
        raise FalseSnapshotError("its handovers are not the changes of the members in its state")
    state.derive()
    state.commit()
    ledger = Ledger.restore(genesis, manifest.header, (state, node), check or verify)
    ledger.succession = succession
    return ledger


def verify_manifest(genesis: Genesis, manifest: Manifest, verify: Verify = verify_signature) -> Succession:
    """Returns the members that its handovers prove.

    Raises FalseSnapshotError unless a quorum of those in force certified the block after the snapshot's.
    """
    header, following = manifest.header, manifest.following.header
    if header.chain_id != genesis.chain_id:
        raise FalseSnapshotError(f"it belongs to another chain: {header.chain_id}")
    if following.height != header.height + 1 or following.previous != header.block_id():
        raise FalseSnapshotError("the certified block does not follow the snapshot's")
    try:
        succession = Succession.verified(genesis, manifest.handovers, verify)
        succession.verify(manifest.following, verify)
    except ReceiptError as error:
        raise FalseSnapshotError(str(error)) from error
    return succession


def require_changes(manifest: Manifest, known: Iterable[tuple[int, Members]]) -> None:
    """Raises FalseSnapshotError unless it has all changes of the members that are known, up to its height.

    Otherwise it may be certified by members that have left, whose keys may be stolen since.
    """
    proved = {each.height: each.members for each in manifest.handovers}
    for height, members in known:
        if height <= manifest.header.height + 1 and proved.get(height) != members:
            raise FalseSnapshotError(f"it lacks the change of the members from height {height} on")


def _decode_chunk(encoded: bytes, number: int) -> Iterator[Leaf]:
    try:
        chunk = Chunk.decode(encoded)
        if chunk.number != number:
            raise FalseSnapshotError(f"chunk {number} has the number {chunk.number}")
        for key, value in chunk.leaves:
            yield Leaf(place_of(key), hash_leaf(key, value), decode_leaf(key, value))
    except DecodeError as error:
        raise FalseSnapshotError(f"chunk {number} is damaged: {error}") from error
