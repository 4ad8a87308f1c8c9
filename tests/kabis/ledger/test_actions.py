"""Topics, keys, marks, holes and evidence: what they do, and a violation of each rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kabis.chain import (
    CHAIN,
    STORAGE,
    Chain,
    batch_of,
    chain_with_topic,
    key_of,
    make_genesis,
    submitted,
    vote,
)
from tests.kabis.ledger.test_submit import FIRST, SECOND, refused
from veristream.kabis.ledger import rules
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.state import Ending, Key, Topic
from veristream.kabis.protocol.actions import Hole, LowWater, RegisterKey, RevokeKey, RotateKey, SetTopic
from veristream.kabis.protocol.outcomes import Already, Done, Reason
from veristream.kabis.protocol.receipts import StorageAbsence, VoteKind, sign_storage_absence
from veristream.kabis.protocol.transactions import (
    Author,
    BatchConflict,
    Skip,
    VoteConflict,
    prove_possession,
    sign_action,
    skip,
)


@pytest.fixture
def chain() -> Chain:
    return chain_with_topic()


@pytest.fixture
def used(chain: Chain) -> Chain:
    """A chain at height 2 with two batches in the partition 0 of `orders`."""
    chain.block(submitted(FIRST), submitted(SECOND))
    return chain


# Topics.


def test_topics_are_set_and_grow(chain: Chain) -> None:
    assert chain.ledger.topics() == {"logs": Topic(1, False), "orders": Topic(2, True)}
    chain.block(chain.act("admin", SetTopic("orders", 5, validated=False)))
    assert chain.ledger.topic("orders") == Topic(5, False)


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (SetTopic("orders", 1, validated=True), Reason.OUT_OF_RANGE),
        (SetTopic("new", 0, validated=True), Reason.OUT_OF_RANGE),
        (SetTopic("new", 10_001, validated=True), Reason.OUT_OF_RANGE),
        (SetTopic("a/b", 1, validated=True), Reason.BAD_NAME),
        (SetTopic("", 1, validated=True), Reason.BAD_NAME),
    ],
)
def test_topics_that_may_not_be(chain: Chain, action: SetTopic, reason: Reason) -> None:
    assert refused(chain.preview(chain.act("admin", action))) is reason


def test_a_topic_set_to_what_it_is_changes_nothing(chain: Chain) -> None:
    assert chain.preview(chain.act("admin", SetTopic("orders", 2, validated=True))) == Already()


def test_only_admins_set_topics_marks_and_holes_and_register_keys(used: Chain) -> None:
    for action in (
        SetTopic("new", 1, validated=True),
        LowWater("orders", 0, 1),
        Hole("orders", 0, 0, FIRST.digest()),
        used.register("carol").action,
        RevokeKey("bob", 0),
    ):
        assert refused(used.preview(used.act("alice", action))) is Reason.NOT_ADMIN


# Actions in general.


def test_an_action_is_not_replayed_nor_moved(chain: Chain) -> None:
    old = chain.act("admin", SetTopic("a", 1, validated=True))
    new = chain.act("admin", SetTopic("b", 1, validated=True))
    chain.block(new)
    assert chain.preview(new) == Already()
    assert refused(chain.preview(old)) is Reason.REPLAYED
    again = chain.act("admin", SetTopic("c", 1, validated=True), number=new.number)
    assert refused(chain.preview(again)) is Reason.REPLAYED
    elsewhere = Author("other-chain", "admin", 0, key_of("admin"))
    assert refused(chain.preview(sign_action(elsewhere, 99, old.action))) is Reason.BAD_SIGNATURE


@pytest.mark.parametrize(
    "change", [{"number": 100}, {"action": SetTopic("evil", 1, True)}, {"author": "alice"}]
)
def test_the_signature_covers_author_number_and_action(chain: Chain, change: dict[str, object]) -> None:
    good = chain.act("admin", SetTopic("new", 1, validated=True))
    assert refused(chain.preview(replace(good, **change))) is Reason.BAD_SIGNATURE


def test_strangers_do_nothing(chain: Chain) -> None:
    assert refused(chain.preview(chain.act("mallory", RevokeKey("mallory", 0)))) is Reason.UNKNOWN_KEY
    assert (
        refused(chain.preview(chain.act("alice", RevokeKey("alice", 0), key_epoch=3))) is Reason.UNKNOWN_KEY
    )


# Keys.


@pytest.mark.parametrize("version", [1, 2])
def test_a_client_replaces_its_own_key_only_so_often(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "ROTATIONS_MAX", 1)
    chain = Chain(Ledger(make_genesis(version=version)))
    for key_epoch in (1, 2):
        key = key_of("alice", key_epoch)
        rotation = RotateKey(key.public, prove_possession(CHAIN, "alice", key_epoch, key))
        acted = chain.act("alice", rotation, key_epoch=key_epoch - 1)
        if key_epoch == 1 or version == 1:
            chain.block(acted)
        else:
            assert refused(chain.preview(acted)) is Reason.TOO_MANY
            chain.block(chain.register("alice", 2))
    account = chain.ledger.account("alice")
    assert account is not None and account.key_epoch == 2


def test_a_key_is_registered_rotated_and_revoked(chain: Chain) -> None:
    chain.block(chain.register("carol"))
    key = chain.ledger.key("carol", 0)
    assert key is not None and (key.registered_height, key.ended_height) == (2, None)
    fresh = key_of("carol", 1)
    rotation = RotateKey(fresh.public, prove_possession(CHAIN, "carol", 1, fresh))
    chain.block(chain.act("carol", rotation))
    old, new = chain.ledger.key("carol", 0), chain.ledger.key("carol", 1)
    assert old is not None and (old.ended_height, old.ending) == (3, Ending.REPLACED)
    assert new is not None and (new.public, new.registered_height) == (fresh.public, 3)
    chain.block(chain.act("admin", RevokeKey("carol", 1)))
    revoked = chain.ledger.key("carol", 1)
    assert revoked is not None and (revoked.ended_height, revoked.ending) == (4, Ending.REVOKED)
    assert chain.preview(chain.act("admin", RevokeKey("carol", 1))) == Already()
    assert (
        refused(chain.preview(chain.act("carol", RevokeKey("carol", 1), key_epoch=1))) is Reason.KEY_ENDED
    )
    chain.block(chain.register("carol", 2))
    account = chain.ledger.account("carol")
    assert account is not None and account.key_epoch == 2


def test_an_admin_replaces_a_lost_key(chain: Chain) -> None:
    chain.block(chain.register("alice", 1))
    old = chain.ledger.key("alice", 0)
    assert old is not None and (old.ended_height, old.ending) == (2, Ending.REPLACED)


def register(
    name: str, epoch: int, owner: str, owner_epoch: int = 0, proof_epoch: int | None = None
) -> RegisterKey:
    key = key_of(owner, owner_epoch)
    possession = prove_possession(CHAIN, name, epoch if proof_epoch is None else proof_epoch, key)
    return RegisterKey(name, epoch, key.public, possession)


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (register("carol", 1, "carol"), Reason.WRONG_EPOCH),
        (register("alice", 0, "alice", 7), Reason.WRONG_EPOCH),
        (register("alice", 2, "alice", 7), Reason.WRONG_EPOCH),
        (register("carol", 0, "bob"), Reason.KEY_IN_USE),
        (register("alice", 1, "alice"), Reason.KEY_IN_USE),
        (register("carol", 0, "carol", proof_epoch=1), Reason.BAD_SIGNATURE),
        (replace(register("carol", 0, "carol"), public=key_of("dave").public), Reason.BAD_SIGNATURE),
        (register("no name", 0, "carol"), Reason.BAD_NAME),
    ],
)
def test_keys_that_may_not_be_registered(chain: Chain, action: RegisterKey, reason: Reason) -> None:
    assert refused(chain.preview(chain.act("admin", action))) is reason


def test_a_key_stays_its_first_owners(chain: Chain) -> None:
    chain.block(chain.register("carol"))
    assert refused(chain.preview(chain.act("admin", register("dave", 0, "carol")))) is Reason.KEY_IN_USE
    chain.block(chain.act("carol", RevokeKey("carol", 0)))
    assert refused(chain.preview(chain.act("admin", register("dave", 0, "carol")))) is Reason.KEY_IN_USE


def test_a_key_is_valid_after_its_registration_up_to_its_end() -> None:
    key = Key(bytes(32), 3, 5, Ending.REVOKED)
    assert [height for height in range(8) if key.valid_at(height)] == [4, 5]
    assert [height for height in range(8) if Key(bytes(32), 3).valid_at(height)] == [4, 5, 6, 7]


def test_a_key_that_was_never_there_is_not_revoked(chain: Chain) -> None:
    assert refused(chain.preview(chain.act("admin", RevokeKey("alice", 1)))) is Reason.UNKNOWN_KEY


def test_a_rotation_goes_to_the_next_epoch_once(chain: Chain) -> None:
    first, second = (
        RotateKey(
            key_of("alice", epoch).public, prove_possession(CHAIN, "alice", 1, key_of("alice", epoch))
        )
        for epoch in (1, 2)
    )
    one, two = chain.act("alice", first), chain.act("alice", second)
    assert chain.ledger.select([one.encode(), two.encode()], chain.clock_ms) == (one.encode(),)


# The low-water mark.


def test_the_mark_lets_go_of_whole_batches_below_it(used: Chain) -> None:
    used.block(used.act("admin", LowWater("orders", 0, 1)))
    partition = used.ledger.partition("orders", 0)
    assert (partition.low_water, partition.oldest, partition.next_index) == (1, 0, 3)
    assert [each.first_index for each in used.ledger.admissions("orders", 0, 1)] == [0, 2]
    with pytest.raises(IndexError, match="index 0 of orders-0 is below the low-water mark"):
        next(used.ledger.admissions("orders", 0, 0))
    used.block(used.act("admin", LowWater("orders", 0, 3)))
    assert used.ledger.partition("orders", 0).oldest == 3
    assert list(used.ledger.admissions("orders", 0, 3)) == []
    state = used.ledger._state
    assert list(state.admissions.items()) == list(state.sequences.items()) == []
    assert used.ledger._starts == {("orders", 0): []}
    third = batch_of(b"d", sequence=3, previous=SECOND.digest())
    used.block(submitted(third))
    assert [each.first_index for each in used.ledger.admissions("orders", 0, 3)] == [3]


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (LowWater("orders", 0, 4), Reason.OUT_OF_RANGE),
        (LowWater("orders", 0, 1), Reason.OUT_OF_RANGE),
        (LowWater("orders", 1, 0), Reason.UNKNOWN_PARTITION),
        (LowWater("nowhere", 0, 0), Reason.UNKNOWN_PARTITION),
    ],
)
def test_marks_that_may_not_be(used: Chain, action: LowWater, reason: Reason) -> None:
    used.block(used.act("admin", LowWater("orders", 0, 2)))
    assert refused(used.preview(used.act("admin", action))) is reason


def test_the_same_mark_changes_nothing(used: Chain) -> None:
    assert used.preview(used.act("admin", LowWater("orders", 0, 0))) == Already()


# Holes.

HOLE = Hole("orders", 0, 0, FIRST.digest())


def absent(party: str, height: int = 2, hole: Hole = HOLE) -> StorageAbsence:
    return sign_storage_absence(CHAIN, party, hole.digest, height, key_of(party))


def test_a_hole_that_all_who_vouched_confess_is_skipped_and_they_are_accused(used: Chain) -> None:
    chain_before = used.ledger.partition("orders", 0).chain
    assert used.block(skip(HOLE, [absent("s0"), absent("s1")])) == (Done(),)
    assert [each.skipped for each in used.ledger.admissions("orders", 0, 0)] == [True, False]
    assert used.ledger.partition("orders", 0).next_index == 3
    assert used.ledger.partition("orders", 0).chain != chain_before
    assert list(used.ledger.accusations()) == [("storage", "s0"), ("storage", "s1")]
    assert used.preview(skip(HOLE, [absent("s0"), absent("s1")])) == Already()
    assert used.preview(used.act("admin", HOLE)) == Already()


def test_a_party_is_accused_once(used: Chain) -> None:
    used.block(skip(HOLE, [absent("s0"), absent("s1")]))
    before = used.ledger.accusations()
    second = Hole("orders", 0, 2, SECOND.digest())
    assert used.block(skip(second, [absent("s0", hole=second), absent("s1", hole=second)])) == (Done(),)
    assert used.ledger.accusations() == before


def test_an_admin_may_order_a_skip_which_accuses_nobody(used: Chain) -> None:
    assert used.block(used.act("admin", HOLE)) == (Done(),)
    assert [each.skipped for each in used.ledger.admissions("orders", 0, 0)] == [True, False]
    assert used.ledger.accusations() == {}


@pytest.mark.parametrize(
    ("transaction", "reason"),
    [
        # F = 1 liar among those who vouched, and an honest party that never got the batch: not enough.
        (skip(HOLE, [absent("s0"), absent("s2")]), Reason.NOT_ABSENT),
        (skip(HOLE, []), Reason.NOT_ABSENT),
        (skip(HOLE, [absent("s0"), absent("s1", height=1)]), Reason.STALE_ABSENCE),
        (skip(HOLE, [absent("s0"), absent("s9")]), Reason.UNKNOWN_PARTY),
        (skip(HOLE, [absent("s0"), replace(absent("s0"), party="s1")]), Reason.BAD_SIGNATURE),
        (skip(HOLE, [absent("s0"), replace(absent("s1"), digest=SECOND.digest())]), Reason.WRONG_RECEIPT),
        (skip(replace(HOLE, digest=SECOND.digest()), []), Reason.NO_SUCH_BATCH),
        (skip(replace(HOLE, first_index=1), []), Reason.NO_SUCH_BATCH),
        (skip(replace(HOLE, partition=1), []), Reason.NO_SUCH_BATCH),
    ],
)
def test_holes_that_are_none(used: Chain, transaction: Skip, reason: Reason) -> None:
    assert refused(used.preview(transaction)) is reason


def test_an_admins_hole_must_be_a_batch_too(used: Chain) -> None:
    wrong = used.act("admin", replace(HOLE, digest=SECOND.digest()))
    assert refused(used.preview(wrong)) is Reason.NO_SUCH_BATCH


def test_all_three_who_vouched_must_confess(chain: Chain) -> None:
    chain.block(submitted(FIRST, STORAGE))
    assert refused(chain.preview(skip(HOLE, [absent("s0"), absent("s1")]))) is Reason.NOT_ABSENT
    assert chain.preview(skip(HOLE, [absent(name) for name in STORAGE])) == Done()


# Evidence.

OTHER = batch_of(b"A", b"B")


def test_two_batches_of_one_sequence_fence_the_key(chain: Chain) -> None:
    evidence = BatchConflict(FIRST.signed, OTHER.signed)
    assert chain.block(evidence) == (Done(),)
    key = chain.ledger.key("alice", 0)
    assert key is not None and (key.ended_height, key.ending) == (2, Ending.FENCED)
    assert list(chain.ledger.accusations()) == [("producer", "alice/0")]
    assert chain.preview(evidence) == Already()
    assert chain.preview(BatchConflict(OTHER.signed, FIRST.signed)) == Already()


def test_a_key_that_had_ended_is_still_accused(chain: Chain) -> None:
    chain.block(chain.act("alice", RevokeKey("alice", 0)))
    assert chain.block(BatchConflict(FIRST.signed, OTHER.signed)) == (Done(),)
    key = chain.ledger.key("alice", 0)
    assert key is not None and key.ending is Ending.REVOKED
    assert list(chain.ledger.accusations()) == [("producer", "alice/0")]


def conflict(**change: object) -> BatchConflict:
    """FIRST against another batch that differs from it in one way more."""
    return BatchConflict(FIRST.signed, batch_of(b"A", **change).signed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        (BatchConflict(FIRST.signed, FIRST.signed), Reason.NO_CONFLICT),
        (BatchConflict(FIRST.signed, replace(FIRST.signed, signature=bytes(64))), Reason.NO_CONFLICT),
        (conflict(sequence=2), Reason.NO_CONFLICT),
        (conflict(partition=1), Reason.NO_CONFLICT),
        (conflict(topic="logs"), Reason.NO_CONFLICT),
        (conflict(producer="bob"), Reason.NO_CONFLICT),
        (conflict(key_epoch=1), Reason.NO_CONFLICT),
        (conflict(chain_id="other-chain"), Reason.OTHER_CHAIN),
        (conflict(signer=key_of("bob")), Reason.BAD_SIGNATURE),
        (BatchConflict(batch_of(b"A", signer=key_of("bob")).signed, FIRST.signed), Reason.BAD_SIGNATURE),
        (
            BatchConflict(batch_of(b"a", producer="eve").signed, batch_of(b"b", producer="eve").signed),
            Reason.UNKNOWN_KEY,
        ),
    ],
)
def test_what_is_no_evidence_against_a_producer(
    chain: Chain, evidence: BatchConflict, reason: Reason
) -> None:
    assert refused(chain.preview(evidence)) is reason


ONE, TWO = bytes([1]) * 32, bytes([2]) * 32


def test_a_validator_that_votes_twice_is_accused_once(chain: Chain) -> None:
    assert chain.block(VoteConflict(vote(3, ONE, 9), vote(3, TWO, 9))) == (Done(),)
    assert list(chain.ledger.accusations()) == [("validator", "v3")]
    assert chain.preview(VoteConflict(vote(3, ONE, 8), vote(3, None, 8))) == Already()
    assert chain.preview(VoteConflict(vote(2, ONE, 8), vote(2, None, 8))) == Done()


@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        (VoteConflict(vote(3, ONE, 9), vote(3, ONE, 9)), Reason.NO_CONFLICT),
        (VoteConflict(vote(3, ONE, 9), vote(3, TWO, 8)), Reason.NO_CONFLICT),
        (VoteConflict(vote(3, ONE, 9), vote(2, TWO, 9)), Reason.NO_CONFLICT),
        (VoteConflict(vote(3, ONE, 9), vote(3, TWO, 9, VoteKind.PREVOTE)), Reason.NO_CONFLICT),
        (VoteConflict(vote(3, ONE, 9), replace(vote(3, TWO, 9), round_number=1)), Reason.NO_CONFLICT),
        (VoteConflict(vote(3, ONE, 9), replace(vote(2, TWO, 9), validator=3)), Reason.BAD_SIGNATURE),
        (VoteConflict(replace(vote(2, TWO, 9), validator=3), vote(3, ONE, 9)), Reason.BAD_SIGNATURE),
        (
            VoteConflict(replace(vote(3, ONE, 9), validator=4), replace(vote(3, TWO, 9), validator=4)),
            Reason.UNKNOWN_VALIDATOR,
        ),
    ],
)
def test_what_is_no_evidence_against_a_validator(
    chain: Chain, evidence: VoteConflict, reason: Reason
) -> None:
    assert refused(chain.preview(evidence)) is reason
