"""A small chain for tests: deterministic keys, batches with receipts, blocks with certificates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from veristream.kabis.ledger.event_receipts import CertifiedHeader
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.rules import apply_transaction
from veristream.kabis.protocol.actions import Action, RegisterKey, SetTopic
from veristream.kabis.protocol.batch import Batch, Stream, build_batch
from veristream.kabis.protocol.blocks import Block
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.protocol.genesis import VERSION_MAX, Genesis, Party, StorageMode
from veristream.kabis.protocol.keys import SecretKey, make_key
from veristream.kabis.protocol.members import Members
from veristream.kabis.protocol.outcomes import Admitted, Done, Effect, Outcome
from veristream.kabis.protocol.receipts import (
    CommitCertificate,
    SignedVote,
    StorageReceipt,
    VoteKind,
    quorum,
    sign_storage_receipt,
    vote_bytes,
)
from veristream.kabis.protocol.records import encode_leaf
from veristream.kabis.protocol.transactions import (
    Author,
    Signed,
    Submit,
    Transaction,
    prove_possession,
    sign_action,
    submit,
)
from veristream_testing.simulation.votes import certify

CHAIN = "test-chain"
START_MS = 1_000_000
VALIDATORS = ("v0", "v1", "v2", "v3")
STORAGE = ("s0", "s1", "s2")


def key_of(name: str, key_epoch: int = 0) -> SecretKey:
    """The same key for the same name and epoch in every run."""
    return make_key(sha256(f"{name}/{key_epoch}".encode()).digest())


def party(name: str) -> Party:
    return Party(name, key_of(name).public)


def make_genesis(
    chain_id: str = CHAIN, mode: StorageMode = StorageMode.TOLERANT, version: int = VERSION_MAX
) -> Genesis:
    storage = STORAGE if mode is StorageMode.TOLERANT else STORAGE[:2]
    return Genesis(
        chain_id=chain_id,
        time_ms=START_MS,
        faults=1,
        storage_mode=mode,
        validators=tuple(map(party, VALIDATORS)),
        storage=tuple(map(party, storage)),
        admins=(party("admin"),),
        clients=(party("alice"), party("bob")),
        version=version,
    )


def leaves(*values: bytes) -> list[bytes]:
    return [encode_leaf(None, value, (), 7) for value in values]


def batch_of(
    *values: bytes,
    sequence: int = 0,
    previous: bytes = ZERO_DIGEST,
    producer: str = "alice",
    key_epoch: int = 0,
    partition: int = 0,
    topic: str = "orders",
    chain_id: str = CHAIN,
    signer: SecretKey | None = None,
) -> Batch:
    stream = Stream(chain_id, topic, partition, producer, key_epoch)
    return build_batch(stream, sequence, previous, leaves(*values), signer or key_of(producer, key_epoch))


def stored(
    batch: Batch, parties: Iterable[str] = STORAGE[:2], chain_id: str = CHAIN
) -> list[StorageReceipt]:
    return [sign_storage_receipt(chain_id, name, batch.digest(), key_of(name)) for name in parties]


def submitted(batch: Batch, parties: Iterable[str] = STORAGE[:2]) -> Submit:
    return submit(batch.signed, stored(batch, parties))


def vote(
    number: int, block_id: bytes | None, height: int, kind: VoteKind = VoteKind.PRECOMMIT
) -> SignedVote:
    signature = key_of(VALIDATORS[number]).sign(vote_bytes(CHAIN, kind, height, 0, block_id))
    return SignedVote(number, kind, height, 0, block_id, signature)


def certificate_for(block: Block, voters: Sequence[int] = (0, 1, 2)) -> CommitCertificate:
    header = block.header
    return certify([vote(number, header.block_id(), header.height) for number in voters])


def certificate_of_members(
    block: Block, members: Members, keys: Mapping[bytes, SecretKey], voters: Sequence[int] | None = None
) -> CommitCertificate:
    """Votes of these members for the block: of the voters, or of as many as a quorum needs."""
    header = block.header
    message = vote_bytes(CHAIN, VoteKind.PRECOMMIT, header.height, 0, header.block_id())
    numbers = range(quorum(len(members.validators))) if voters is None else voters
    signatures = [(number, keys[members.validators[number].public].sign(message)) for number in numbers]
    return CommitCertificate(header.height, 0, header.block_id(), tuple(signatures))


@dataclass
class Chain:
    """A ledger with the blocks that led to it."""

    ledger: Ledger = field(default_factory=lambda: Ledger(make_genesis()))
    blocks: list[Block] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)

    @property
    def clock_ms(self) -> int:
        return self.ledger.time_ms + 10

    def act(self, author: str, action: Action, key_epoch: int = 0, number: int | None = None) -> Signed:
        """The author's action with the next number."""
        if number is None:
            number = self.numbers[author] = self.numbers.get(author, 0) + 1
        return sign_action(Author(CHAIN, author, key_epoch, key_of(author, key_epoch)), number, action)

    def register(self, name: str, key_epoch: int = 0) -> Signed:
        """The admin's registration of a key."""
        key = key_of(name, key_epoch)
        possession = prove_possession(CHAIN, name, key_epoch, key)
        return self.act("admin", RegisterKey(name, key_epoch, key.public, possession))

    def block(self, *transactions: Transaction, clock_ms: int | None = None) -> tuple[Effect, ...]:
        """Applies a block of exactly these transactions."""
        encoded = [transaction.encode() for transaction in transactions]
        block = self.ledger.propose(encoded, clock_ms or self.clock_ms, "v0")
        assert list(block.transactions) == encoded, "a transaction that does not take effect"
        self.blocks.append(block)
        return self.ledger.apply(block)

    def preview(self, transaction: Transaction) -> Outcome:
        """What would become of the transaction now; if it has no effect, then not even a pending one."""
        context = self.ledger._context(self.clock_ms)
        outcome = apply_transaction(context, transaction)
        state = self.ledger._state
        changed = any(table.changes() for table in state.tables())
        state.discard()
        assert changed is isinstance(outcome, Admitted | Done)
        assert self.ledger.preview(transaction.encode(), self.clock_ms) == outcome
        return outcome

    def certified(self, height: int) -> CertifiedHeader:
        block = self.blocks[height - 1]
        return CertifiedHeader(block.header, certificate_for(block))


def chain_with_topic(version: int = VERSION_MAX) -> Chain:
    """A chain at height 1 with the validated topic `orders` of two partitions and the topic `logs`."""
    chain = Chain(Ledger(make_genesis(version=version)))
    chain.block(
        chain.act("admin", SetTopic("orders", 2, validated=True)),
        chain.act("admin", SetTopic("logs", 1, validated=False)),
    )
    return chain
