"""What the facts of a ledger say of keys, marks and who was caught."""

from __future__ import annotations

from dataclasses import replace

from tests.kabis.audit.here import read_ledger
from tests.kabis.chain import (
    CHAIN,
    Chain,
    batch_of,
    certificate_for,
    chain_with_topic,
    key_of,
    make_genesis,
    submitted,
    vote,
)
from veristream.kabis.audit.findings import Finding
from veristream.kabis.audit.registry import Fact, Registry, Skipped, overlap, read_facts
from veristream.kabis.ledger.state import Ending, Key, Topic
from veristream.kabis.protocol.actions import (
    Grant,
    Hole,
    LowWater,
    Operation,
    Resource,
    Retention,
    RevokeKey,
    RotateKey,
    Rule,
    SetClosed,
    SetRetention,
    SetRole,
    SetTopic,
    to_write,
)
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.protocol.transactions import (
    BatchConflict,
    Transaction,
    VoteConflict,
    prove_possession,
)

GENESIS = make_genesis()


def read(*transactions: Transaction) -> tuple[Registry, list[Finding]]:
    """What facts say that stand in one block each, given in any order."""
    facts = [Fact(height, 0, each.encode()) for height, each in enumerate(transactions, start=1)]
    return read_facts(GENESIS, facts[::-1])


def test_keys_begin_and_end_where_the_ledger_says() -> None:
    chain = Chain()
    second = key_of("alice", 1)
    rotated = RotateKey(second.public, prove_possession(CHAIN, "alice", 1, second))
    registry, findings = read(
        chain.act("alice", rotated),
        chain.register("carol"),
        chain.act("admin", RevokeKey("carol", 0)),
    )
    assert findings == []
    assert registry.keys["alice", 0] == Key(key_of("alice").public, 0, 1, Ending.REPLACED)
    assert registry.keys["alice", 1] == Key(second.public, 1)
    assert registry.keys["carol", 0] == Key(key_of("carol").public, 2, 3, Ending.REVOKED)
    assert registry.is_signed(batch_of(b"a", key_epoch=1).signed)
    assert not registry.is_signed(batch_of(b"a", key_epoch=1, signer=key_of("alice")).signed)
    assert not registry.is_signed(batch_of(b"a", producer="nobody").signed)
    assert not registry.is_signed(batch_of(b"a", chain_id="another").signed)


def test_topics_marks_and_holes() -> None:
    chain = Chain()
    registry, findings = read(
        chain.act("admin", SetTopic("orders", 2, validated=True)),
        chain.act("admin", LowWater("orders", 1, 5)),
        chain.act("admin", LowWater("orders", 1, 8)),
        chain.act("admin", Hole("orders", 0, 3, bytes(32))),
    )
    assert findings == []
    assert registry.topics == {"orders": Topic(2, True)}
    assert registry.marks == {("orders", 1): 8}
    assert registry.skipped == {bytes(32): Skipped(4, ())}


def test_an_action_that_nobody_signed_has_no_effect_and_is_told() -> None:
    signed = Chain().act("admin", SetTopic("orders", 2, validated=True))
    registry, findings = read(replace(signed, signature=bytes(64)))
    assert registry.topics == {}
    assert [(each.kind, each.role, each.height) for each in findings] == [("bad_signature", "ledger", 1)]


def test_a_producer_that_was_caught_is_fenced() -> None:
    first, second = batch_of(b"a", b"b"), batch_of(b"c", sequence=1)
    registry, findings = read(BatchConflict(first.signed, second.signed))
    assert registry.keys["alice", 0].ending is Ending.FENCED
    assert registry.conflicts == {("orders", 0, "alice", 0, 1)}
    assert [(each.kind, each.accused, each.sequence) for each in findings] == [("equivocation", "alice", 1)]


def test_evidence_that_proves_nothing_is_the_ledgers_fault() -> None:
    first, apart = batch_of(b"a", b"b"), batch_of(b"c", sequence=2)
    forged = batch_of(b"c", sequence=1, signer=key_of("mallory"))
    for second in (apart, forged, first):
        registry, findings = read(BatchConflict(first.signed, second.signed))
        assert registry.keys["alice", 0].ended_height is None
        assert [(each.kind, each.role) for each in findings] == [("bad_signature", "ledger")]


def test_a_validator_that_was_caught() -> None:
    one, other = vote(2, bytes(32), 7), vote(2, None, 7)
    _, findings = read(VoteConflict(one, other))
    assert [(each.kind, each.accused, each.height) for each in findings] == [("equivocation", "v2", 1)]
    for second in (one, vote(2, None, 8), replace(other, signature=bytes(64))):
        _, findings = read(VoteConflict(one, second))
        assert [(each.kind, each.role) for each in findings] == [("bad_signature", "ledger")]


def test_where_two_batches_overlap() -> None:
    first = batch_of(b"a", b"b", b"c", sequence=4).header
    assert overlap(first, batch_of(b"x", b"y", sequence=3).header) == 4
    assert overlap(first, batch_of(b"x", sequence=6).header) == 6
    assert overlap(first, batch_of(b"x", sequence=7).header) is None
    assert overlap(first, batch_of(b"x", sequence=4, partition=1).header) is None
    assert overlap(first, batch_of(b"x", sequence=4, key_epoch=1).header) is None
    assert overlap(first, first) is None


def test_marks_rise_by_retention_as_on_the_ledger() -> None:
    chain = chain_with_topic()
    previous, sequence = ZERO_DIGEST, 0

    def fill(batches: int) -> None:
        nonlocal previous, sequence
        for number in range(batches):
            batch = batch_of(*[b"x"] * (1 + number % 3), sequence=sequence, previous=previous)
            chain.block(submitted(batch))
            previous, sequence = batch.digest(), sequence + batch.header.count

    def marks() -> tuple[int, int]:
        blocks = [CertifiedBlock(block, certificate_for(block)) for block in chain.blocks]
        read = read_ledger(chain.ledger.genesis, blocks)
        assert read.findings == []
        return read.registry.marks.get(("orders", 0), 0), chain.ledger.partition("orders", 0).low_water

    fill(6)
    assert marks() == (0, 0)
    for action in (
        SetRetention("orders", Retention(4, 0)),
        LowWater("orders", 0, 14),
        SetRetention("orders", Retention(0, 25)),
        SetRetention("orders", Retention(2, 0)),
    ):
        chain.block(chain.act("admin", action))
        fill(3)
        found, true = marks()
        assert found == true > 0


def test_access_rules_are_kept_and_those_that_no_admin_ordered_are_found() -> None:
    chain = Chain()
    grant = Grant(Rule(Resource.TOPIC, "orders", Operation.WRITE, "bob"))
    registry, findings = read(
        chain.act("admin", grant),
        chain.act("bob", SetClosed(False)),
        chain.act("admin", SetRole("bob", "clerks", held=True)),
        chain.act("admin", Grant(Rule(Resource.GROUP, "readers", Operation.WRITE, "bob"))),
    )
    assert registry.access == [(1, grant), (3, SetRole("bob", "clerks", held=True))]
    found = [(each.kind, each.role, each.height) for each in findings]
    assert found == [("no_right", "ledger", 2), ("no_right", "ledger", 4)]
    assert "only an admin may do this: bob" in findings[0].detail
    history = registry.replay_access()
    assert history.may(1, "alice", to_write("orders")) and not history.may(2, "alice", to_write("orders"))
    assert history.may(4, "bob", to_write("orders"))
