"""Admission of batches: indices, order, and a violation of each rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kabis.chain import (
    STORAGE,
    Chain,
    batch_of,
    chain_with_topic,
    key_of,
    make_genesis,
    stored,
    submitted,
)
from veristream.kabis.ledger import rules
from veristream.kabis.ledger.ledger import InvalidBlockError, Ledger
from veristream.kabis.protocol.actions import LowWater, RevokeKey, RotateKey, SetTopic
from veristream.kabis.protocol.batch import SignedHeader
from veristream.kabis.protocol.blocks import Block, transactions_root
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.protocol.genesis import StorageMode
from veristream.kabis.protocol.outcomes import NOT_YET, Admitted, Already, Done, Outcome, Reason, Refused
from veristream.kabis.protocol.receipts import sign_storage_receipt
from veristream.kabis.protocol.transactions import BatchConflict, Submit, prove_possession, submit

FIRST = batch_of(b"a", b"b")
SECOND = batch_of(b"c", sequence=2, previous=FIRST.digest())


def refused(outcome: Outcome) -> Reason:
    assert isinstance(outcome, Refused), outcome
    return outcome.reason


@pytest.fixture
def chain() -> Chain:
    return chain_with_topic()


def test_batches_take_the_indices_of_their_partition_in_order(chain: Chain) -> None:
    bob = batch_of(b"x", b"y", b"z", producer="bob")
    elsewhere = batch_of(b"w", partition=1)
    effects = chain.block(*map(submitted, (FIRST, bob, SECOND, elsewhere)))
    assert effects == (Admitted(0, 2), Admitted(2, 3), Admitted(5, 1), Admitted(0, 1))
    assert chain.ledger.partition("orders", 0).next_index == 6
    assert chain.ledger.partition("orders", 1).next_index == 1
    cursor = chain.ledger.cursor("alice", "orders", 0)
    assert (cursor.next_sequence, cursor.last) == (3, SECOND.digest())
    found = list(chain.ledger.admissions("orders", 0, 0))
    assert [(each.first_index, each.digest, each.parties) for each in found] == [
        (0, FIRST.digest(), ("s0", "s1")),
        (2, bob.digest(), ("s0", "s1")),
        (5, SECOND.digest(), ("s0", "s1")),
    ]
    assert [each.first_index for each in chain.ledger.admissions("orders", 0, 3)] == [2, 5]
    assert list(chain.ledger.admissions("orders", 0, 6)) == []


def test_a_batch_again_has_no_effect(chain: Chain) -> None:
    assert chain.block(submitted(FIRST), submitted(SECOND)) == (Admitted(0, 2), Admitted(2, 1))
    assert chain.preview(submitted(FIRST)) == Already()
    assert chain.preview(submitted(SECOND)) == Already()
    assert chain.preview(submitted(SECOND, STORAGE)) == Already()


REFUSALS = {
    Reason.OTHER_CHAIN: submitted(batch_of(b"a", chain_id="other-chain")),
    Reason.UNKNOWN_TOPIC: submitted(batch_of(b"a", topic="nowhere")),
    Reason.UNVALIDATED_TOPIC: submitted(batch_of(b"a", topic="logs")),
    Reason.UNKNOWN_PARTITION: submitted(batch_of(b"a", partition=2)),
    Reason.UNKNOWN_KEY: submitted(batch_of(b"a", producer="mallory")),
    Reason.BAD_SIGNATURE: submitted(batch_of(b"a", signer=key_of("bob"))),
    Reason.EARLY: submitted(SECOND),
    Reason.WRONG_PREVIOUS: submitted(batch_of(b"a", previous=bytes([1]) * 32)),
    Reason.TOO_FEW_RECEIPTS: submitted(FIRST, ["s2"]),
    Reason.WRONG_RECEIPT: Submit(FIRST.signed, tuple(stored(SECOND))),
    Reason.UNKNOWN_PARTY: submitted(FIRST, ["s0", "s1", "s9"]),
}


@pytest.mark.parametrize(("reason", "transaction"), REFUSALS.items())
def test_each_rule_refuses_what_breaks_it(chain: Chain, reason: Reason, transaction: Submit) -> None:
    assert refused(chain.preview(transaction)) is reason


def test_an_unknown_epoch_is_an_unknown_key(chain: Chain) -> None:
    forged = batch_of(b"a", key_epoch=1)
    assert refused(chain.preview(submitted(forged))) is Reason.UNKNOWN_KEY


def test_a_signature_does_not_move_to_another_topic_or_partition(chain: Chain) -> None:
    chain.block(chain.act("admin", SetTopic("payments", 1, validated=True)))
    for change in ({"topic": "payments"}, {"partition": 1}):
        spliced = SignedHeader(replace(FIRST.header, **change), FIRST.signed.signature)
        receipts = [
            sign_storage_receipt("test-chain", name, spliced.digest(), key_of(name))
            for name in ("s0", "s1")
        ]
        assert refused(chain.preview(submit(spliced, receipts))) is Reason.BAD_SIGNATURE


def test_one_bad_storage_receipt_spoils_the_lot(chain: Chain) -> None:
    good = stored(FIRST, STORAGE)
    forged = replace(good[2], signature=good[1].signature)
    transaction = submit(FIRST.signed, [*good[:2], forged])
    assert chain.preview(transaction) == Refused(Reason.BAD_SIGNATURE, "s2")
    assert chain.preview(submit(FIRST.signed, good)) == Admitted(0, 2)


def test_two_receipts_of_one_party_are_one() -> None:
    receipt = stored(FIRST, ["s0"])[0]
    assert len(submit(FIRST.signed, [receipt, receipt]).receipts) == 1


def test_the_papers_mode_needs_all_its_parties() -> None:
    chain = Chain(Ledger(make_genesis(mode=StorageMode.PAPER)))
    chain.block(chain.act("admin", SetTopic("orders", 2, validated=True)))
    assert refused(chain.preview(submitted(FIRST, ["s0"]))) is Reason.TOO_FEW_RECEIPTS
    assert chain.preview(submitted(FIRST, ["s0", "s1"])) == Admitted(0, 2)


def test_a_second_batch_of_one_sequence_is_a_conflict_and_evidence(chain: Chain) -> None:
    chain.block(submitted(FIRST), submitted(SECOND))
    other = batch_of(b"A", b"B")
    assert refused(chain.preview(submitted(other))) is Reason.CONFLICT
    evidence = chain.ledger.find_conflict(submitted(other))
    assert evidence == BatchConflict(FIRST.signed, other.signed)
    assert chain.block(evidence) == (Done(),)
    assert refused(chain.preview(submitted(batch_of(b"d", sequence=3, previous=SECOND.digest())))) is (
        Reason.KEY_ENDED
    )


def test_a_batch_that_overlaps_is_a_conflict_too(chain: Chain) -> None:
    chain.block(submitted(FIRST), submitted(SECOND))
    other = batch_of(b"B", sequence=1)
    assert refused(chain.preview(submitted(other))) is Reason.CONFLICT
    assert chain.ledger.find_conflict(submitted(other)) == BatchConflict(FIRST.signed, other.signed)


def test_an_overlap_is_not_sought_for_ever(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    chain.block(submitted(FIRST), submitted(SECOND))
    monkeypatch.setattr(rules, "COVERING_STEPS_MAX", 1)
    assert refused(chain.preview(submitted(batch_of(b"B", sequence=1)))) is Reason.OLD
    assert refused(chain.preview(submitted(batch_of(b"A", b"B")))) is Reason.CONFLICT


def test_a_conflict_across_epochs_accuses_nobody(chain: Chain) -> None:
    chain.block(submitted(FIRST))
    key = key_of("alice", 1)
    rotation = RotateKey(key.public, prove_possession("test-chain", "alice", 1, key))
    chain.block(chain.act("alice", rotation))
    other = submitted(batch_of(b"A", key_epoch=1))
    assert refused(chain.preview(other)) is Reason.CONFLICT
    assert chain.ledger.find_conflict(other) is None


def test_a_forged_conflict_accuses_nobody(chain: Chain) -> None:
    chain.block(submitted(FIRST))
    forged = submitted(batch_of(b"A", signer=key_of("bob")))
    assert refused(chain.preview(forged)) is Reason.BAD_SIGNATURE
    evidence = chain.ledger.find_conflict(forged)
    assert evidence is not None
    assert refused(chain.preview(evidence)) is Reason.BAD_SIGNATURE


def test_what_is_below_the_low_water_mark_is_old_and_no_conflict(chain: Chain) -> None:
    chain.block(submitted(FIRST), submitted(SECOND))
    chain.block(chain.act("admin", LowWater("orders", 0, 2)))
    assert refused(chain.preview(submitted(FIRST))) is Reason.OLD
    assert chain.preview(submitted(SECOND)) == Already()
    assert chain.ledger.find_conflict(submitted(FIRST)) is None


def test_a_key_is_valid_from_the_block_after_its_registration_to_that_of_its_end(chain: Chain) -> None:
    carol = batch_of(b"a", producer="carol")
    registration = chain.register("carol")
    block = chain.ledger.propose([registration.encode(), submitted(carol).encode()], chain.clock_ms, "v0")
    assert block.transactions == (registration.encode(),)
    both = (*block.transactions, submitted(carol).encode())
    hasty = Block(replace(block.header, count=2, root=transactions_root(both)), both)
    with pytest.raises(InvalidBlockError, match=Reason.KEY_NOT_YET_VALID.value):
        chain.ledger.check(hasty)
    assert frozenset((Reason.EARLY, Reason.KEY_NOT_YET_VALID)) == NOT_YET
    chain.block(registration)
    revocation = chain.act("carol", RevokeKey("carol", 0))
    later = batch_of(b"b", producer="carol", sequence=1, previous=carol.digest())
    assert chain.block(revocation, submitted(carol)) == (Done(), Admitted(0, 1))
    assert refused(chain.preview(submitted(later))) is Reason.KEY_ENDED


def test_the_sequence_goes_on_under_a_new_key(chain: Chain) -> None:
    chain.block(submitted(FIRST))
    key = key_of("alice", 1)
    rotation = RotateKey(key.public, prove_possession("test-chain", "alice", 1, key))
    chain.block(chain.act("alice", rotation))
    assert refused(chain.preview(submitted(SECOND))) is Reason.KEY_ENDED
    resigned = batch_of(b"c", sequence=2, previous=FIRST.digest(), key_epoch=1)
    assert chain.block(submitted(resigned)) == (Admitted(2, 1),)


def test_a_topic_that_stops_being_validated_admits_nothing_from_there_on(chain: Chain) -> None:
    chain.block(submitted(FIRST))
    chain.block(chain.act("admin", SetTopic("orders", 2, validated=False)))
    assert refused(chain.preview(submitted(SECOND))) is Reason.UNVALIDATED_TOPIC
    chain.block(chain.act("admin", SetTopic("orders", 2, validated=True)))
    assert chain.preview(submitted(SECOND)) == Admitted(2, 1)


def test_a_proposal_takes_pipelined_batches_in_whatever_order_they_came(chain: Chain) -> None:
    third = batch_of(b"d", sequence=3, previous=SECOND.digest())
    encoded = [submitted(each).encode() for each in (third, SECOND, FIRST)]
    assert chain.ledger.select(encoded, chain.clock_ms) == tuple(encoded[::-1])
    assert chain.ledger.select(encoded[:2], chain.clock_ms) == ()
    assert chain.ledger.cursor("alice", "orders", 0).last == ZERO_DIGEST
