"""Makes a long chain with the parties' own code, but without running them: ledger, blocks, certificates.

One producer signs batches of one event, storage parties sign receipts, three of four validators sign each
block. The result is the folder that a validator would have: its blocks and its snapshots.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path

from veristream.kabis.ledger.certified import CertifiedHeader
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.log.disk.log import Flush, Log, LogOptions
from veristream.kabis.ordering.snapshots import Retained, SnapshotFolder
from veristream.kabis.ordering.store import BlockStore
from veristream.kabis.protocol.actions import Retention, SetRetention, SetTopic
from veristream.kabis.protocol.batch import Stream, build_batch
from veristream.kabis.protocol.blocks import Block, BlockHeader, CertifiedBlock, transactions_root
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import SecretKey, make_key
from veristream.kabis.protocol.members import Party, StorageMode
from veristream.kabis.protocol.receipts import (
    CommitCertificate,
    VoteKind,
    sign_storage_receipt,
    vote_bytes,
)
from veristream.kabis.protocol.records import encode_leaf
from veristream.kabis.protocol.transactions import Author, sign_action, submit

CHAIN = "long-chain"
TOPIC = "orders"
VALIDATORS = ("v0", "v1", "v2", "v3")
STORAGE = ("s0", "s1", "s2")
BLOCK_MS = 1000


@cache
def key_of(name: str) -> SecretKey:
    """Returns the key of a party, the same in every run."""
    return make_key(sha256(f"{CHAIN}/{name}".encode()).digest())


def make_genesis(addresses: tuple[str, ...] = ("",) * len(VALIDATORS)) -> Genesis:
    """Returns the genesis with the validators at these addresses, which do not change the chain's id."""
    return Genesis(
        chain_id=CHAIN,
        time_ms=1_000_000,
        faults=1,
        storage_mode=StorageMode.TOLERANT,
        validators=tuple(
            Party(name, key_of(name).public, address)
            for name, address in zip(VALIDATORS, addresses, strict=True)
        ),
        storage=tuple(Party(name, key_of(name).public) for name in STORAGE),
        admins=(Party("admin", key_of("admin").public),),
        clients=(Party("alice", key_of("alice").public),),
        version=2,
    )


@dataclass(frozen=True, slots=True)
class Growth:
    """How the chain grows: batches in a block, batches kept on the ledger, snapshots and blocks kept."""

    batches_per_block: int = 100
    keep_batches: int = 0
    retained: Retained = field(default_factory=Retained)
    segment_bytes: int = 1 << 20


class LongChain:
    """A chain in a folder, which `grow` makes longer; use `with` to close it."""

    def __init__(self, folder: Path, genesis: Genesis, growth: Growth) -> None:
        self.ledger = Ledger(genesis, _believe)
        self.batches = 0
        self._growth = growth
        self._log = Log(folder / "blocks", LogOptions(growth.segment_bytes, Flush.NEVER))
        self._store = BlockStore(self._log, SnapshotFolder(folder / "snapshots"), growth.retained)
        self._previous = ZERO_DIGEST
        self._producer = key_of("alice")
        author = Author(CHAIN, "admin", 0, key_of("admin"))
        actions: list[SetTopic | SetRetention] = [SetTopic(TOPIC, 1, validated=True)]
        if growth.keep_batches:
            actions.append(SetRetention(TOPIC, Retention(growth.keep_batches, 0)))
        self._decide(
            [sign_action(author, number + 1, each).encode() for number, each in enumerate(actions)]
        )

    @property
    def height(self) -> int:
        """The height of the last block."""
        return self.ledger.height

    def grow(self, batches: int) -> None:
        """Adds blocks until the chain has so many batches."""
        while self.batches < batches:
            count = min(self._growth.batches_per_block, batches - self.batches)
            self._decide([self._make_batch() for _ in range(count)])

    def _make_batch(self) -> bytes:
        stream = Stream(CHAIN, TOPIC, 0, "alice", 0)
        leaf = encode_leaf(None, b"%d" % self.batches, (), self.batches)
        batch = build_batch(stream, self.batches, self._previous, [leaf], self._producer)
        self._previous, self.batches = batch.digest(), self.batches + 1
        receipts = [sign_storage_receipt(CHAIN, name, self._previous, key_of(name)) for name in STORAGE[:2]]
        return submit(batch.signed, receipts).encode()

    def _decide(self, transactions: list[bytes]) -> None:
        block = self._make_block(tuple(transactions))
        self.ledger.apply(block)  # fails if a transaction takes no effect
        header = block.header
        message = vote_bytes(CHAIN, VoteKind.PRECOMMIT, header.height, 0, header.block_id())
        votes = tuple((number, key_of(VALIDATORS[number]).sign(message)) for number in range(3))
        certificate = CommitCertificate(header.height, 0, header.block_id(), votes)
        self._store.append(CertifiedBlock(block, certificate))
        due = self._store.decided(self.ledger, CertifiedHeader(header, certificate))
        if due is not None:
            self._store.prune(self._store.write(*due))

    def _make_block(self, transactions: tuple[bytes, ...]) -> Block:
        """Returns the block that a validator would propose, without trying each transaction first."""
        ledger = self.ledger
        header = BlockHeader(
            chain_id=CHAIN,
            height=ledger.height + 1,
            time_ms=ledger.time_ms + BLOCK_MS,
            previous=ledger.last_id,
            proposer=VALIDATORS[0],
            count=len(transactions),
            root=transactions_root(transactions),
            state=ledger.state_hash(),
        )
        return Block(header, transactions)

    def sync(self) -> None:
        """Makes all blocks so far durable."""
        self._log.sync(now=True)

    def close(self) -> None:
        """Makes the chain durable."""
        self._log.close()

    def __enter__(self) -> LongChain:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _believe(public: bytes, message: bytes, signature: bytes) -> None:
    """Accepts a signature that was made a moment ago."""
