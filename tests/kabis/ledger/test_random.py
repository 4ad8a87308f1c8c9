"""Random transactions whose signatures all pass: no ledger crashes, and replicas never differ.

Signatures are taken as good, so that random transactions get past them to the rules behind. Whatever fails
here is replayed by its seed.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import get_args

from tests.kabis.chain import key_of, make_genesis, party
from tests.kabis.ledger.changing import replaced
from veristream.kabis.ledger.leaves import Leaves
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.membership import find_new_keys
from veristream.kabis.ledger.state import State
from veristream.kabis.protocol import actions as act
from veristream.kabis.protocol import transactions as tx
from veristream.kabis.protocol.batch import BatchHeader, SignedHeader
from veristream.kabis.protocol.blocks import Block, CertifiedBlock
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.protocol.members import Party, Possession
from veristream.kabis.protocol.receipts import (
    CommitCertificate,
    SignedVote,
    StorageAbsence,
    StorageReceipt,
    VoteKind,
)
from veristream.kabis.protocol.transactions import Transaction, decode_transaction
from veristream.kabis.storage.chain import ChainView

LONG = "n" * 249
GENESIS = replace(make_genesis(), clients=(party("alice"), party(LONG)))
SIGNATURE = bytes(64)
NO_VOTES = CommitCertificate(1, 0, bytes(32), ())
ROOTS = (ZERO_DIGEST, bytes([1]) * 32)
TOPICS = ("t", LONG)
BLOCKS = 40


def accept(public: bytes, message: bytes, signature: bytes) -> None:
    """Every signature is good."""


@dataclass
class Dice:
    """Draws transactions that fit the ledger more often than not."""

    rng: random.Random
    ledger: Ledger
    number: int = 0

    def place(self) -> tuple[str, int]:
        return self.rng.choice(TOPICS), self.rng.randrange(2)

    def client(self) -> str:
        return self.rng.choice(["alice", "alice", "alice", LONG, LONG, "carol", "nobody"])

    def epoch(self, name: str) -> int:
        account = self.ledger.account(name)
        return 0 if account is None else account.key_epoch - (self.rng.random() < 0.1 < account.key_epoch)

    def name(self) -> str:
        return self.rng.choice(["a", "a", "a", LONG, "no name"])

    def header(self) -> SignedHeader:
        (topic, partition), producer = self.place(), self.client()
        cursor = self.ledger.cursor(producer, topic, partition)
        early_or_late = self.rng.choice([0, 0, 0, 0, 1, -1, -2])
        sequence = max(0, cursor.next_sequence + early_or_late)
        previous = cursor.last if self.rng.random() < 0.9 else ZERO_DIGEST
        root, count = self.rng.choice(ROOTS), self.rng.randint(1, 3)
        fields = (topic, partition, producer, self.epoch(producer), sequence, count, previous, root)
        return SignedHeader(BatchHeader(GENESIS.chain_id, *fields), SIGNATURE)

    def submit(self) -> tx.Submit:
        signed = self.header()
        parties = self.rng.choice([("s0", "s1"), ("s0", "s1", "s2"), ("s1", "s2"), ("s0",)])
        return tx.submit(signed, [StorageReceipt(each, signed.digest(), SIGNATURE) for each in parties])

    def hole(self) -> act.Hole:
        topic, partition = self.place()
        mark = self.ledger.partition(topic, partition).low_water
        known = list(self.ledger.admissions(topic, partition, mark))
        if not known:
            return act.Hole(topic, partition, 0, ZERO_DIGEST)
        chosen = self.rng.choice(known)
        return act.Hole(topic, partition, chosen.first_index, chosen.digest)

    def skip(self) -> tx.Skip:
        hole, height = self.hole(), self.ledger.height
        parties = self.rng.choice([("s0", "s1"), ("s0", "s1", "s2"), ()])
        return tx.skip(hole, [StorageAbsence(each, hole.digest, height, SIGNATURE) for each in parties])

    def conflict(self) -> tx.BatchConflict:
        first = self.header()
        other = replace(first.header, root=self.rng.choice(ROOTS), count=self.rng.randint(1, 3))
        return tx.BatchConflict(first, SignedHeader(other, SIGNATURE))

    def vote(self) -> SignedVote:
        block_id = self.rng.choice([None, *ROOTS])
        kind, validator = self.rng.choice(list(VoteKind)), self.rng.randrange(5)
        return SignedVote(validator, kind, self.rng.randrange(2), 0, block_id, SIGNATURE)

    def by_client(self) -> act.Action:
        (topic, partition), group, instance = self.place(), self.name(), self.name()
        generation = self.ledger.group(group).generation
        index = self.rng.randint(0, self.ledger.partition(topic, partition).next_index + 1)
        return self.rng.choice(
            [
                act.JoinGroup(group, instance, self.rng.choice([(), ("t",), (LONG, "t")]), 1000),
                act.JoinGroup(group, instance, (LONG, "t"), 1000),
                act.LeaveGroup(group, instance),
                act.CommitOffsets(group, instance, generation, ((topic, partition, index),)),
                act.CommitOffsets(group, instance, generation, ()),
                act.RevokeKey(self.client(), self.rng.randrange(2)),
                act.RotateKey(key_of(f"spare {self.rng.randrange(50)}").public, SIGNATURE),
            ]
        )

    def by_admin(self) -> act.Action:
        (topic, partition), name = self.place(), self.client()
        state = self.ledger.partition(topic, partition)
        account = self.ledger.account(name)
        epoch = 0 if account is None else account.key_epoch + self.rng.randint(0, 1)
        public = key_of(f"spare {self.rng.randrange(50)}").public
        return self.rng.choice(
            [
                act.SetTopic(topic, 2, True),
                act.SetTopic(self.rng.choice([topic, self.name()]), self.rng.randrange(4), True),
                act.RegisterKey(name, epoch, public, SIGNATURE),
                act.RevokeKey(name, epoch),
                act.LowWater(topic, partition, self.rng.randint(state.low_water, state.next_index + 1)),
                self.hole(),
                act.SetRetention(topic, act.Retention(self.rng.randrange(1, 5), self.rng.choice([0, 900]))),
                act.Grant(self.rule()),
                act.Revoke(self.rng.choice([self.rule(), *self.ledger.rules()])),
                act.SetRole(name, self.rng.choice("ab"), held=self.rng.random() < 0.5),
                act.SetClosed(self.rng.random() < 0.2),
                act.SetQuota(act.Quota(*(self.rng.choice([0, 0, 5]) for _ in range(3)))),
                act.Upgrade(self.rng.choice([2, 2, 2, 3]), self.ledger.height + self.rng.randrange(1, 9)),
                self.change(),
            ]
        )

    def change(self) -> act.SetMembers:
        """Another key for a validator that never proposes, or for a storage party."""
        before, name = self.ledger.members, self.rng.choice(["v0", "s2"])
        new = Party(name, key_of(f"spare {self.rng.randrange(50)}").public)
        after = replaced(before, name, new)
        proofs = tuple(
            Possession(role, each.name, SIGNATURE) for role, each in find_new_keys(before, after)
        )
        return act.SetMembers(after, self.ledger.height + self.rng.randrange(2, 6), proofs)

    def rule(self) -> act.Rule:
        """A rule that leaves most clients what they need to go on."""
        pattern = self.rng.choice(["*", "t", "t*", LONG])
        who = self.rng.choice([*"******", "alice", "role:a"])
        resource = self.rng.choice(list(act.Resource))
        operation = (
            self.rng.choice(list(act.Operation)) if resource is act.Resource.TOPIC else act.Operation.READ
        )
        return act.Rule(resource, pattern, operation, who)

    def signed(self) -> tx.Signed:
        self.number += self.rng.choice([1, 1, 1, 1, 0])
        author = self.rng.choice(["admin", self.client()])
        action = self.by_admin() if author == "admin" else self.by_client()
        return tx.Signed(author, self.epoch(author), self.number, action, SIGNATURE)

    def transaction(self) -> Transaction:
        match self.rng.randrange(12):
            case 0:
                return self.skip() if self.rng.random() < 0.3 else self.submit()
            case 1:
                return tx.Evict(self.name(), self.client(), self.name())
            case 2:
                return self.conflict() if self.rng.random() < 0.1 else self.submit()
            case 3:
                return tx.VoteConflict(self.vote(), self.vote())
            case 4 | 5 | 6 | 7:
                return self.submit()
            case _:
                return self.signed()


def run(seed: int, taken: Counter[str]) -> None:
    """One random history; counts which kinds of transactions took effect. Even seeds begin in version 1."""
    rng = random.Random(seed)
    genesis = replace(GENESIS, version=1 + seed % 2)
    ledger, replica = Ledger(genesis, accept), Ledger(genesis, accept)
    dice, view = Dice(rng, ledger, number=2), ChainView(genesis)
    candidates: list[Transaction] = [
        tx.Signed("admin", 0, number + 1, act.SetTopic(topic, 2, True), SIGNATURE)
        for number, topic in enumerate(TOPICS)
    ]
    for _ in range(BLOCKS):
        clock_ms = ledger.time_ms + rng.choice([1, 1, 600])
        block = ledger.propose([each.encode() for each in candidates], clock_ms, "v1")
        effects = ledger.check(block)
        assert ledger.apply(block) == effects
        assert replica.apply(Block.decode(block.encode())) == effects
        assert ledger.state_hash() == replica.state_hash()
        check_partitions(ledger)
        check_root(ledger)
        view.take(CertifiedBlock(block, NO_VOTES))
        check_view(ledger, view)
        for encoded in block.transactions:
            transaction = decode_transaction(encoded)
            kind = transaction.action if isinstance(transaction, tx.Signed) else transaction
            taken[type(kind).__name__] += 1
        candidates = [dice.transaction() for _ in range(rng.randrange(12))]


def check_view(ledger: Ledger, view: ChainView) -> None:
    """A storage party, which has no ledger, keeps the same batches as the ledger."""
    for topic in TOPICS:
        for number in (0, 1):
            partition = ledger.partition(topic, number)
            known = list(ledger.admissions(topic, number, partition.low_water))
            ends = [admission.next_index for admission in known]
            assert list(view._kept[topic, number]._ends) == ends


def check_root(ledger: Ledger) -> None:
    """The root is that of a trie built from nothing, and what is derived follows from the leaves."""
    state = ledger._state
    if ledger.protocol.version == 1:
        return
    assert state.version == 2
    fresh, derived = Leaves(), State()
    fresh.take(state, state.entries())
    assert fresh.root() == ledger.state_hash()
    for table, key, value in state.entries():
        getattr(derived, table).put(key, value)
    derived.derive()
    assert dict(derived.guards.items()).keys() == dict(state.guards.items()).keys()
    for name in ("publics", "sequences", "held"):
        assert dict(getattr(derived, name).items()) == dict(getattr(state, name).items())
    assert {key: count for key, count in state.kept.items() if count} == dict(derived.kept.items())
    for name, roster in state.rosters.items():
        found = derived.rosters.get(name)
        assert found is not None
        assert found.subscriptions == roster.subscriptions


def check_partitions(ledger: Ledger) -> None:
    """Indices without gaps from the oldest batch on, and sequences without gaps in each stream."""
    for topic in TOPICS:
        for number in (0, 1):
            partition = ledger.partition(topic, number)
            known = list(ledger.admissions(topic, number, partition.low_water))
            expected, sequences = partition.oldest, dict[str, int]()
            for admission in known:
                header = admission.signed.header
                assert admission.first_index == expected
                assert header.first_sequence == sequences.get(header.producer, header.first_sequence)
                sequences[header.producer] = header.next_sequence
                expected = admission.next_index
            assert expected == partition.next_index
            for producer, next_sequence in sequences.items():
                assert ledger.cursor(producer, topic, number).next_sequence == next_sequence


def test_random_histories_keep_replicas_equal() -> None:
    taken: Counter[str] = Counter()
    for seed in range(40):
        try:
            run(seed, taken)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    kinds = {kind.__name__ for kind in (*get_args(act.Action), *get_args(tx.Transaction))} - {"Signed"}
    assert {kind: count for kind, count in taken.items() if count >= 3}.keys() == kinds


def test_the_longest_name_may_be_accused() -> None:
    ledger = Ledger(GENESIS, accept)
    one, two = (
        SignedHeader(BatchHeader(GENESIS.chain_id, "t", 0, LONG, 0, 0, 1, ZERO_DIGEST, root), SIGNATURE)
        for root in ROOTS
    )
    block = ledger.propose([tx.BatchConflict(one, two).encode()], 0, "v0")
    ledger.apply(block)
    assert list(ledger.accusations()) == [("producer", f"{LONG}/0")]
