"""Writes a chain with faults at seeded places, for `bench/audit.py` and the tests to audit.

Three storage parties store every batch and two of them sign receipts for it; three of four validators
certify the blocks. No party runs: this module writes the blocks and logs as the parties would.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from veristream.kabis.audit.findings import Finding, Kind
from veristream.kabis.log.disk.log import Flush, Log, LogOptions
from veristream.kabis.protocol.actions import Hole, SetTopic
from veristream.kabis.protocol.batch import Batch, SignedHeader, Stream, build_batch
from veristream.kabis.protocol.blocks import Block, BlockHeader, CertifiedBlock, transactions_root
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.protocol.genesis import Genesis, Party, StorageMode, to_json
from veristream.kabis.protocol.keys import SecretKey, make_key
from veristream.kabis.protocol.receipts import CommitCertificate, VoteKind, sign_storage_receipt, vote_bytes
from veristream.kabis.protocol.records import encode_leaf
from veristream.kabis.protocol.transactions import Author, sign_action, submit
from veristream.kabis.storage.entries import BatchEntry

CHAIN = "audited"
TOPIC = "orders"
PARTITIONS = 2
PRODUCERS = ("anna", "berta", "clara", "dora")
GHOST = "ghost"
"""A producer that has no admitted batches."""
VALIDATORS = tuple(f"validator-{number}" for number in range(1, 5))
STORAGE = tuple(f"storage-{number}" for number in range(1, 4))
BATCHES_PER_BLOCK = 10
VALUE_BYTES = 100
START_MS = 1_700_000_000_000
BLOCK_MS = 250
ADMIN_NUMBER = 1

PLANTED = (
    Kind.BAD_SIGNATURE,
    Kind.ALTERED,
    Kind.WITHHELD,
    Kind.HOLE,
    Kind.SPLICE,
    Kind.EQUIVOCATION,
    Kind.UNVERIFIABLE_RECEIPT,
    Kind.PHANTOM,
)

Sign = tuple[str, str, str, int, str, int, int]
"""What identifies a finding: kind, accused, topic, partition, producer, sequence, height."""


@dataclass(frozen=True)
class Plan:
    """What to write: total batches, events per batch, faults of each kind, and the seed of their places."""

    batches: int
    batch_events: int
    faults: int
    seed: int = 1

    def __post_init__(self) -> None:
        if self.batches < 20 * max(1, self.faults):
            raise ValueError(f"{self.batches} batches are too few for {self.faults} faults of each kind")


def sign_of(finding: Finding) -> Sign:
    """Returns what identifies a finding."""
    place = (finding.topic, finding.partition, finding.producer, finding.sequence)
    return (finding.kind, finding.accused, *place, finding.height)


def key_of(name: str) -> SecretKey:
    """Returns the key of a name, the same in every run."""
    return make_key(sha256(name.encode()).digest())


def make_genesis() -> Genesis:
    """Returns a genesis of four validators and three storage parties; one of each may lie."""

    def parties(names: tuple[str, ...]) -> tuple[Party, ...]:
        return tuple(Party(name, key_of(name).public) for name in names)

    return Genesis(
        CHAIN,
        START_MS,
        1,
        StorageMode.TOLERANT,
        parties(VALIDATORS),
        parties(STORAGE),
        parties(("admin",)),
        parties((*PRODUCERS, GHOST)),
    )


@dataclass
class _Cursor:
    sequence: int = 0
    last: bytes = ZERO_DIGEST


@dataclass
class Writer:
    """Writes the chain batch by batch; `planted` contains what an audit must find."""

    plan: Plan
    blocks: Log
    logs: dict[str, Log]
    genesis: Genesis = field(default_factory=make_genesis)
    planted: set[Sign] = field(default_factory=set)
    height: int = 0
    last_id: bytes = b""
    waiting: list[bytes] = field(default_factory=list)
    cursors: dict[tuple[str, int], _Cursor] = field(default_factory=dict)
    indices: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(PARTITIONS), 0))
    spoil_certificate: bool = False

    def __post_init__(self) -> None:
        self.last_id = self.genesis.digest()
        self.random = random.Random(self.plan.seed)
        self.faults = self._choose_places()
        self.admin = Author(CHAIN, "admin", 0, key_of("admin"))

    def _choose_places(self) -> dict[int, tuple[Kind, int]]:
        """Maps some batches to a fault and its number; never the first two batches of a stream."""
        streams = PARTITIONS * len(PRODUCERS)
        places = range(2 * streams, self.plan.batches - streams)
        kinds = [(kind, number) for kind in PLANTED for number in range(self.plan.faults)]
        # Choose different blocks, so that no block has two spoilt certificates.
        blocks = sorted({place // BATCHES_PER_BLOCK for place in places})
        if len(blocks) >= len(kinds):
            firsts = self.random.sample(blocks, len(kinds))
            chosen = [
                self.random.choice([p for p in places if p // BATCHES_PER_BLOCK == block])
                for block in firsts
            ]
        else:
            chosen = self.random.sample(places, len(kinds))
        return dict(zip(chosen, kinds, strict=True))

    def write(self) -> None:
        """Writes the whole chain."""
        self.waiting.append(
            sign_action(self.admin, ADMIN_NUMBER, SetTopic(TOPIC, PARTITIONS, True)).encode()
        )
        self.seal()
        for number in range(self.plan.batches):
            self.write_batch(number)
            if (number + 1) % BATCHES_PER_BLOCK == 0:
                self.seal()
        if self.waiting:
            self.seal()

    def write_batch(self, number: int) -> None:
        """Writes the next batch of one of the streams, with its fault if it has one."""
        kind, variant = self.faults.get(number, (None, 0))
        producer = PRODUCERS[number % len(PRODUCERS)]
        partition = number // len(PRODUCERS) % PARTITIONS
        cursor = self.cursors.setdefault((producer, partition), _Cursor())
        expected = cursor.sequence
        if kind is Kind.HOLE and variant % 2 == 0:
            cursor.sequence += 1 + variant
        previous = sha256(b"nothing").digest() if kind is Kind.SPLICE else cursor.last
        batch = self.make_batch(producer, partition, cursor.sequence, previous)
        cursor.sequence, cursor.last = batch.header.next_sequence, batch.digest()
        vouching = [STORAGE[number % 3], STORAGE[(number + 1) % 3]]
        self.submit(batch, vouching, kind, variant)
        kept = self.plant(kind, variant, batch, self.random.choice(vouching), expected)
        self.indices[partition] += self.plan.batch_events
        for party, data in kept.items():
            for each in data:
                self.logs[party].append(BatchEntry(0, each).encode())

    def make_batch(self, producer: str, partition: int, sequence: int, previous: bytes) -> Batch:
        """Builds a signed batch of distinct events."""
        head = f"{producer} {partition} ".encode()
        filler = b"." * (VALUE_BYTES - len(head) - 12)
        leaves = [
            encode_leaf(b"key", b"%s%012d%s" % (head, number, filler), (), START_MS)
            for number in range(sequence, sequence + self.plan.batch_events)
        ]
        stream = Stream(CHAIN, TOPIC, partition, producer, 0)
        return build_batch(stream, sequence, previous, leaves, key_of(producer))

    def submit(self, batch: Batch, vouching: list[str], kind: Kind | None, variant: int) -> None:
        """Adds the batch with its receipts to the next block; may spoil a receipt or the certificate."""
        digest = batch.digest()
        receipts = [sign_storage_receipt(CHAIN, party, digest, key_of(party)) for party in vouching]
        if kind is Kind.UNVERIFIABLE_RECEIPT and variant % 2 == 0:
            receipts[0] = replace(receipts[0], signature=flip(receipts[0].signature))
            self.expect(kind, receipts[0].party, batch)
        elif kind is Kind.UNVERIFIABLE_RECEIPT:
            self.spoil_certificate = True
        self.waiting.append(submit(batch.signed, receipts).encode())

    def plant(
        self, kind: Kind | None, variant: int, batch: Batch, liar: str, expected: int
    ) -> dict[str, list[bytes]]:
        """Returns what each party writes into its log, including the fault."""
        data, header = batch.encode(), batch.header
        kept = {party: [data] for party in STORAGE}
        match kind:
            case Kind.BAD_SIGNATURE:
                signed = SignedHeader(header, flip(batch.signed.signature))
                kept[liar] = [Batch(signed, batch.leaves).encode()]
                self.expect(kind, liar, batch)
            case Kind.ALTERED:
                kept[liar] = [alter_leaf(batch) if variant % 2 else alter_header(batch)]
                self.expect(kind, liar, batch)
            case Kind.WITHHELD:
                kept[liar] = []
                self.expect(kind, liar, batch)
            case Kind.HOLE if variant % 2:
                self.waiting.append(self._give_up(variant, batch))
                self.expect(kind, "", batch)
            case Kind.HOLE:
                self._expect_at(kind, "", batch, expected)
            case Kind.SPLICE:
                self.expect(kind, "", batch)
            case Kind.EQUIVOCATION:
                other = self.make_batch(
                    header.producer, header.partition, header.first_sequence, batch.digest()
                )
                kept[liar].append(other.encode())
                self.expect(kind, header.producer, batch, height=0)
            case Kind.PHANTOM:
                ghost = self.make_batch(GHOST, 0, variant * self.plan.batch_events, ZERO_DIGEST)
                kept[liar].append(ghost.encode())
                self.expect(kind, GHOST, ghost, height=0)
            case _:
                pass
        return kept

    def _give_up(self, variant: int, batch: Batch) -> bytes:
        header = batch.header
        hole = Hole(TOPIC, header.partition, self.indices[header.partition], batch.digest())
        return sign_action(self.admin, ADMIN_NUMBER + 1 + variant, hole).encode()

    def expect(self, kind: Kind, accused: str, batch: Batch, height: int | None = None) -> None:
        """Records that an audit must report this for the batch."""
        self._expect_at(kind, accused, batch, batch.header.first_sequence, height)

    def _expect_at(
        self, kind: Kind, accused: str, batch: Batch, sequence: int, height: int | None = None
    ) -> None:
        header = batch.header
        where = self.height + 1 if height is None else height
        self.planted.add((kind, accused, TOPIC, header.partition, header.producer, sequence, where))

    def seal(self) -> None:
        """Writes a certified block with the waiting transactions."""
        self.height += 1
        header = BlockHeader(
            CHAIN,
            self.height,
            START_MS + BLOCK_MS * self.height,
            self.last_id,
            VALIDATORS[self.height % 4],
            len(self.waiting),
            transactions_root(self.waiting),
            ZERO_DIGEST,
        )
        block = Block(header, tuple(self.waiting))
        self.waiting, self.last_id = [], block.block_id()
        certificate = self._certify(block)
        if self.spoil_certificate:
            (voter, signature), *rest = certificate.signatures
            certificate = replace(certificate, signatures=((voter, flip(signature)), *rest))
            self.planted.add((Kind.UNVERIFIABLE_RECEIPT, "", "", 0, "", -1, self.height))
            self.spoil_certificate = False
        self.blocks.append(CertifiedBlock(block, certificate).encode())

    def _certify(self, block: Block) -> CommitCertificate:
        message = vote_bytes(CHAIN, VoteKind.PRECOMMIT, self.height, 0, block.block_id())
        votes = tuple((number, key_of(VALIDATORS[number]).sign(message)) for number in range(3))
        return CommitCertificate(self.height, 0, block.block_id(), votes)


def flip(data: bytes) -> bytes:
    """Flips one bit."""
    return bytes((data[0] ^ 1,)) + data[1:]


def alter_leaf(batch: Batch) -> bytes:
    """Changes one byte in one event of the batch."""
    *leaves, last = batch.leaves
    return Batch(batch.signed, (*leaves, last[:-1] + bytes((last[-1] ^ 1,)))).encode()


def alter_header(batch: Batch) -> bytes:
    """Replaces the events of the batch, with a matching header that the producer has not signed."""
    leaves = tuple(leaf[:-1] + b"!" for leaf in batch.leaves)
    stream = Stream(CHAIN, TOPIC, batch.header.partition, batch.header.producer, 0)
    made = build_batch(stream, batch.header.first_sequence, batch.header.previous, leaves, key_of("nobody"))
    return made.encode()


def write_chain(folder: Path, plan: Plan) -> set[Sign]:
    """Writes genesis, blocks and logs into an empty folder; returns what an audit must find."""
    options = LogOptions(flush=Flush.NEVER)
    with ExitStack() as stack:
        blocks = stack.enter_context(Log(folder / VALIDATORS[0] / "blocks", options))
        logs = {party: stack.enter_context(Log(folder / party / "log", options)) for party in STORAGE}
        writer = Writer(plan, blocks, logs)
        writer.write()
    (folder / "genesis.json").write_text(to_json(writer.genesis), encoding="utf-8")
    return writer.planted


def list_signs(signs: set[Sign]) -> Iterator[str]:
    """Formats the expected findings."""
    for kind, accused, topic, partition, producer, sequence, height in sorted(signs):
        yield f"{kind} {accused or '-'} {topic}-{partition} {producer} {sequence} block {height}"
