"""Receipts verify with the genesis alone, and each way to fail has its name."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kabis.chain import (
    CHAIN,
    START_MS,
    VALIDATORS,
    Chain,
    batch_of,
    certificate_for,
    chain_with_topic,
    key_of,
    make_genesis,
    party,
    stored,
    submitted,
)
from tests.kabis.protocol.test_seal import SEALER
from tests.kabis.strategies import patient
from veristream.kabis.ledger.event_receipts import (
    CertifiedHeader,
    EventReceipt,
    ReceiptError,
    ReceiptFault,
    VerifiedReceipt,
    export_receipt,
    find_submit,
    make_receipt,
    verify_receipt,
)
from veristream.kabis.protocol.actions import RevokeKey
from veristream.kabis.protocol.batch import Batch, Stream, build_batch
from veristream.kabis.protocol.blocks import Block, transactions_root
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.protocol.records import Event
from veristream.kabis.protocol.transactions import Submit, submit

GENESIS = make_genesis()
VALUES = [f"event {number}".encode() for number in range(10)]


def receipt_of(chain: Chain, batch: Batch, position: int, height: int) -> EventReceipt:
    """The receipt that somebody who follows the chain makes now."""
    proof = chain.ledger.prove_key(batch.header.producer, batch.header.key_epoch)
    assert proof is not None
    block = chain.blocks[height - 1]
    key = (proof, chain.certified(chain.ledger.height))
    return make_receipt(batch, position, block, certificate_for(block), key)


@pytest.fixture(scope="module")
def chain() -> Chain:
    """Height 2: carol is registered; height 3: her batch between two others; height 4: she is revoked."""
    chain = chain_with_topic()
    chain.block(chain.register("carol"))
    chain.block(submitted(batch_of(b"a")), submitted(BATCH), submitted(batch_of(b"b", producer="bob")))
    chain.block(chain.act("carol", RevokeKey("carol", 0)))
    chain.block(submitted(batch_of(b"c", sequence=1, previous=batch_of(b"a").digest())))
    return chain


BATCH = batch_of(*VALUES, producer="carol")


@pytest.fixture(scope="module")
def good(chain: Chain) -> EventReceipt:
    return receipt_of(chain, BATCH, 6, height=3)


def fault_of(receipt: EventReceipt | bytes) -> ReceiptFault:
    data = receipt if isinstance(receipt, bytes) else export_receipt(receipt)
    with pytest.raises(ReceiptError) as caught:
        verify_receipt(data, GENESIS)
    assert str(caught.value).startswith(caught.value.fault.value)
    return caught.value.fault


def test_a_receipt_shows_who_pushed_what_where_and_when(good: EventReceipt) -> None:
    assert verify_receipt(export_receipt(good), GENESIS) == VerifiedReceipt(
        chain_id=CHAIN,
        topic="orders",
        partition=0,
        producer="carol",
        key_epoch=0,
        public=key_of("carol").public,
        sequence=6,
        event=Event(None, b"event 6", (), 7),
        digest=BATCH.digest(),
        height=3,
        number=1,
        position=6,
        time_ms=START_MS + 30,
        validators=("v0", "v1", "v2"),
        storage=("s0", "s1"),
        key_ended_height=4,
    )


@pytest.mark.parametrize("position", range(10))
def test_every_event_of_a_batch_has_a_receipt(chain: Chain, position: int) -> None:
    shown = verify_receipt(export_receipt(receipt_of(chain, BATCH, position, 3)), GENESIS)
    assert (shown.event.value, shown.sequence) == (VALUES[position], position)


def test_a_receipt_made_at_once_needs_no_second_header() -> None:
    chain = chain_with_topic()
    batch = batch_of(b"a")
    chain.block(submitted(batch))
    receipt = receipt_of(chain, batch, 0, 2)
    assert receipt.key_block is None
    assert verify_receipt(export_receipt(receipt), GENESIS).key_ended_height is None
    assert len(export_receipt(receipt)) < 4000


def test_a_key_revoked_in_the_events_own_block_was_still_valid() -> None:
    chain = chain_with_topic()
    batch = batch_of(b"a")
    chain.block(chain.act("alice", RevokeKey("alice", 0)), submitted(batch))
    assert verify_receipt(export_receipt(receipt_of(chain, batch, 0, 2)), GENESIS).key_ended_height is None
    chain.block(chain.register("carol"))
    assert verify_receipt(export_receipt(receipt_of(chain, batch, 0, 2)), GENESIS).key_ended_height == 2


def test_the_file_is_for_people_too(good: EventReceipt) -> None:
    facts = json.loads(export_receipt(good))
    assert facts.pop("proof")
    assert facts == {
        "kabis": "receipt/2",
        "chain_id": CHAIN,
        "topic": "orders",
        "partition": 0,
        "producer": "carol",
        "key_epoch": 0,
        "sequence": 6,
        "height": 3,
        "time_ms": START_MS + 30,
        "batch": BATCH.digest().hex(),
    }


# One byte changed.


@given(st.data())
@settings(patient, max_examples=300)
def test_no_byte_of_the_file_can_be_changed(data: st.DataObject) -> None:
    file = export_receipt(GOOD_ONE)
    at = data.draw(st.integers(0, len(file) - 1))
    changed = file[:at] + bytes([file[at] ^ data.draw(st.integers(1, 255))]) + file[at + 1 :]
    with pytest.raises(ReceiptError):
        verify_receipt(changed, GENESIS)


def good_one() -> EventReceipt:
    chain, batch = chain_with_topic(), batch_of(b"a", b"b", b"c")
    chain.block(submitted(batch_of(b"x", producer="bob")), submitted(batch))
    return receipt_of(chain, batch, 2, 2)


GOOD_ONE = good_one()


def test_no_byte_of_the_proof_can_be_changed() -> None:
    file = json.loads(export_receipt(GOOD_ONE))
    proof = b64decode(file["proof"])
    for at in range(len(proof)):
        changed = proof[:at] + bytes([proof[at] ^ 1]) + proof[at + 1 :]
        file["proof"] = b64encode(changed).decode()
        with pytest.raises(ReceiptError):
            verify_receipt((json.dumps(file, indent=2) + "\n").encode(), GENESIS)


@pytest.mark.parametrize(
    ("field", "value"),
    [("producer", "bob"), ("topic", "x"), ("sequence", 7), ("time_ms", 0), ("height", 9), ("batch", "00")],
)
def test_facts_that_the_proof_does_not_show(good: EventReceipt, field: str, value: object) -> None:
    facts = json.loads(export_receipt(good)) | {field: value}
    assert fault_of((json.dumps(facts, indent=2) + "\n").encode()) is ReceiptFault.ALTERED


@pytest.mark.parametrize(
    "file",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"kabis": "receipt/2"}',
        b'{"kabis": "receipt/2", "proof": 7}',
        b'{"kabis": "receipt/2", "proof": "?"}',
        b'{"kabis": "receipt/2", "proof": "aaaa"}',
        b'{"kabis": "genesis/1", "proof": "aaaa"}',
        b" " * ((8 << 20) + 1),
    ],
)
def test_what_is_no_receipt(file: bytes) -> None:
    assert fault_of(file) is ReceiptFault.MALFORMED


def test_a_file_written_otherwise_is_not_the_receipt(good: EventReceipt) -> None:
    file = export_receipt(good)
    assert fault_of(file + b"\n") is ReceiptFault.ALTERED
    assert fault_of(json.dumps(json.loads(file)).encode()) is ReceiptFault.ALTERED


@given(st.binary(max_size=200))
@patient
def test_random_proofs_raise_only_receipt_errors(noise: bytes) -> None:
    file = {"kabis": "receipt/2", "proof": b64encode(noise).decode()}
    assert fault_of(json.dumps(file).encode()) is ReceiptFault.MALFORMED


# Votes.


def voted(good: EventReceipt, chain: Chain, *voters: int) -> EventReceipt:
    return replace(good, block=CertifiedHeader(good.block.header, certificate_for(chain.blocks[2], voters)))


def test_two_votes_of_four_are_not_enough(chain: Chain, good: EventReceipt) -> None:
    assert fault_of(voted(good, chain, 0, 3)) is ReceiptFault.NOT_ENOUGH_VOTES
    four = verify_receipt(export_receipt(voted(good, chain, 0, 1, 2, 3)), GENESIS)
    assert four.validators == VALIDATORS


def test_the_keys_block_needs_its_votes_too(chain: Chain, good: EventReceipt) -> None:
    assert good.key_block is not None
    weak = CertifiedHeader(good.key_block.header, certificate_for(chain.blocks[4], (0, 1)))
    assert fault_of(replace(good, key_block=weak)) is ReceiptFault.NOT_ENOUGH_VOTES


def test_a_vote_that_is_not_its_validators(good: EventReceipt) -> None:
    certificate = good.block.certificate
    (first, signature), second, _ = certificate.signatures
    forged = replace(certificate, signatures=((first, signature), second, (3, signature)))
    assert fault_of(replace(good, block=replace(good.block, certificate=forged))) is ReceiptFault.BAD_VOTE


def test_a_vote_of_somebody_who_is_no_validator(good: EventReceipt) -> None:
    certificate = good.block.certificate
    forged = replace(certificate, signatures=(*certificate.signatures, (4, bytes(64))))
    fault = fault_of(replace(good, block=replace(good.block, certificate=forged)))
    assert fault is ReceiptFault.UNKNOWN_VALIDATOR


def test_a_vote_twice_is_malformed(good: EventReceipt) -> None:
    certificate = good.block.certificate
    twice = replace(certificate, signatures=certificate.signatures[:1] * 3)
    assert fault_of(replace(good, block=replace(good.block, certificate=twice))) is ReceiptFault.MALFORMED


def test_a_certificate_for_another_block(chain: Chain, good: EventReceipt) -> None:
    other = CertifiedHeader(good.block.header, certificate_for(chain.blocks[3]))
    assert fault_of(replace(good, block=other)) is ReceiptFault.OTHER_BLOCK


# Another chain.


def test_a_receipt_of_another_chain(good: EventReceipt) -> None:
    with pytest.raises(ReceiptError) as caught:
        verify_receipt(export_receipt(good), make_genesis("other-chain"))
    assert caught.value.fault is ReceiptFault.OTHER_CHAIN


def test_a_chain_of_the_same_name_with_other_validators(good: EventReceipt) -> None:
    others = tuple(replace(party(f"w{number}"), name=f"v{number}") for number in range(4))
    with pytest.raises(ReceiptError) as caught:
        verify_receipt(export_receipt(good), replace(GENESIS, validators=others))
    assert caught.value.fault is ReceiptFault.BAD_VOTE


def test_a_block_of_another_chain(chain: Chain, good: EventReceipt) -> None:
    header = replace(good.block.header, chain_id="other-chain")
    block = CertifiedHeader(header, good.block.certificate)
    assert fault_of(replace(good, block=block)) is ReceiptFault.OTHER_CHAIN


def test_a_batch_of_another_chain_in_a_block_of_this_one(later: Chain) -> None:
    batch = batch_of(b"x", chain_id="other-chain")
    assert fault_of(colluding(later, submitted(batch), batch.leaves[0])) is ReceiptFault.OTHER_CHAIN


# Inclusion.


def test_an_event_that_is_not_in_the_batch(good: EventReceipt) -> None:
    for wrong in (
        replace(good, leaf=good.leaf + b"x"),
        replace(good, position=5),
        replace(good, position=10),
        replace(good, leaf_path=good.leaf_path[:-1]),
    ):
        assert fault_of(wrong) is ReceiptFault.NOT_IN_BATCH


def test_a_batch_that_is_not_in_the_block(chain: Chain, good: EventReceipt) -> None:
    header, other = chain.blocks[3].header, certificate_for(chain.blocks[3])
    for wrong in (
        replace(good, number=0),
        replace(good, number=3),
        replace(good, transaction_path=()),
        replace(good, submit=submitted(batch_of(*VALUES[::-1], producer="carol"))),
        replace(good, block=CertifiedHeader(header, other)),
    ):
        assert fault_of(wrong) is ReceiptFault.NOT_IN_BLOCK


# What only validators that collude could certify: the verifier does not take their word for it.


def colluding(chain: Chain, transaction: Submit, leaf: bytes) -> EventReceipt:
    """A receipt from a block that breaks the rules and that three validators certified nevertheless."""
    encoded = (transaction.encode(),)
    header = chain.ledger.propose([], chain.clock_ms, "v0").header
    block = Block(replace(header, count=1, root=transactions_root(encoded)), encoded)
    proof = chain.ledger.prove_key(transaction.signed.header.producer, transaction.signed.header.key_epoch)
    assert proof is not None
    # The state after the last block is what this block names; nothing has changed in it since.
    certified = CertifiedHeader(block.header, certificate_for(block))
    return EventReceipt(leaf, 0, (), transaction, 0, (), certified, proof, None)


def idle(chain: Chain) -> Chain:
    """One empty block more, so that the last block names the state that holds."""
    chain.block()
    return chain


@pytest.fixture
def later() -> Chain:
    """Carol's key was registered at height 2 and revoked at height 3; the last block, 4, is empty."""
    chain = chain_with_topic()
    chain.block(chain.register("carol"))
    chain.block(chain.act("carol", RevokeKey("carol", 0)))
    return idle(chain)


def test_a_revoked_key(later: Chain) -> None:
    batch = batch_of(b"late", producer="carol")
    receipt = colluding(later, submitted(batch), batch.leaves[0])
    assert fault_of(receipt) is ReceiptFault.REVOKED_KEY


def test_a_key_that_is_registered_later_than_the_event() -> None:
    chain = chain_with_topic()
    batch = batch_of(b"early", producer="carol")
    encoded = (submitted(batch).encode(),)
    header = replace(chain.ledger.propose([], chain.clock_ms, "v0").header, count=1)
    early = Block(replace(header, root=transactions_root(encoded)), encoded)
    chain.block(chain.register("carol"))
    idle(chain)
    proof = chain.ledger.prove_key("carol", 0)
    assert proof is not None
    receipt = make_receipt(batch, 0, early, certificate_for(early), (proof, chain.certified(3)))
    assert fault_of(receipt) is ReceiptFault.KEY_NOT_YET_VALID


def test_an_unknown_key(later: Chain, good: EventReceipt) -> None:
    batch = batch_of(b"x", producer="alice")
    receipt = colluding(later, submitted(batch), batch.leaves[0])
    verify_receipt(export_receipt(receipt), GENESIS)
    mallory = batch_of(b"x", producer="mallory")
    forged = colluding(later, submitted(batch), batch.leaves[0])
    assert fault_of(replace(forged, key_proof=good.key_proof)) is ReceiptFault.UNKNOWN_KEY
    proof = later.ledger.prove_key("bob", 0)
    assert proof is not None
    assert fault_of(replace(forged, key_proof=proof)) is ReceiptFault.UNKNOWN_KEY
    own = replace(proof, key=replace(proof.key, public=key_of("mallory").public))
    assert later.ledger.prove_key("mallory", 0) is None
    encoded = (submitted(mallory).encode(),)
    header = replace(forged.block.header, root=transactions_root(encoded))
    block = CertifiedHeader(header, certificate_for(Block(header, encoded)))
    stolen = replace(forged, submit=submitted(mallory), leaf=mallory.leaves[0], block=block, key_proof=own)
    assert fault_of(stolen) is ReceiptFault.UNKNOWN_KEY


def test_a_key_proof_from_before_the_event(chain: Chain, good: EventReceipt) -> None:
    replica = chain_with_topic()
    replica.block(*[])
    proof = replica.ledger.prove_key("alice", 0)
    assert proof is not None
    old = replace(good, key_proof=proof, key_block=replica.certified(2))
    assert fault_of(old) is ReceiptFault.OLD_KEY_PROOF


def test_a_batch_that_its_producer_did_not_sign(later: Chain) -> None:
    batch = batch_of(b"x", producer="alice", signer=key_of("mallory"))
    assert fault_of(colluding(later, submitted(batch), batch.leaves[0])) is ReceiptFault.BAD_SIGNATURE


def test_storage_receipts_are_checked_too(later: Chain) -> None:
    batch, other = batch_of(b"x"), batch_of(b"y")
    leaf = batch.leaves[0]
    few = colluding(later, submitted(batch, ["s1"]), leaf)
    assert fault_of(few) is ReceiptFault.NOT_ENOUGH_STORAGE
    stranger = colluding(later, submitted(batch, ["s0", "s1", "s7"]), leaf)
    assert fault_of(stranger) is ReceiptFault.UNKNOWN_STORAGE
    elsewhere = colluding(later, Submit(batch.signed, tuple(stored(other))), leaf)
    assert fault_of(elsewhere) is ReceiptFault.BAD_STORAGE_RECEIPT
    one, two = stored(batch)
    forged = colluding(later, submit(batch.signed, [one, replace(two, signature=one.signature)]), leaf)
    assert fault_of(forged) is ReceiptFault.BAD_STORAGE_RECEIPT


def test_what_a_producer_signed_that_is_no_event(later: Chain) -> None:
    batch = build_batch(
        Stream(CHAIN, "orders", 0, "alice", 0), 0, ZERO_DIGEST, [b"no leaf"], key_of("alice")
    )
    assert fault_of(colluding(later, submitted(batch), b"no leaf")) is ReceiptFault.MALFORMED


def test_a_sealed_event_is_proved_sealed_and_opens_with_the_topics_key() -> None:
    chain = chain_with_topic()
    leaf = SEALER.seal_leaf(b"k", b"secret", (), 9)
    batch = build_batch(Stream(CHAIN, "orders", 0, "alice", 0), 0, ZERO_DIGEST, [leaf], key_of("alice"))
    chain.block(submitted(batch))
    shown = verify_receipt(export_receipt(receipt_of(chain, batch, 0, 2)), GENESIS)
    assert b"secret" not in (shown.event.value or b"")
    assert SEALER.open_event(shown.event) == Event(b"k", b"secret", (), 9)


def test_a_block_without_the_batch_gives_no_receipt(chain: Chain) -> None:
    with pytest.raises(ValueError, match="does not have this batch"):
        find_submit(chain.blocks[3].transactions, BATCH.digest())
