"""Statements of storage parties and validators, and what certifies a block."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kabis.chain import CHAIN, key_of, make_genesis, vote
from veristream.kabis.ordering.messages import Step, Vote, sign_bytes
from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.keys import SignatureError
from veristream.kabis.protocol.receipts import (
    CertificateError,
    CommitCertificate,
    NotEnoughVotesError,
    UnknownValidatorError,
    VoteKind,
    VoteSignatureError,
    quorum,
    sign_storage_absence,
    sign_storage_receipt,
    vote_bytes,
)
from veristream_testing.simulation.votes import certify

BLOCK = bytes(range(32))
KEYS = make_genesis().validator_keys
GOOD = certify([vote(number, BLOCK, 5) for number in (2, 0, 1)])


def test_a_quorum_is_more_than_two_thirds() -> None:
    assert [quorum(count) for count in (1, 4, 7, 10)] == [1, 3, 5, 7]
    assert all(3 * quorum(count) > 2 * count >= 3 * (quorum(count) - 1) for count in range(1, 100))


def test_three_of_four_certify() -> None:
    assert [validator for validator, _ in GOOD.signatures] == [0, 1, 2]
    GOOD.verify(CHAIN, KEYS)
    CommitCertificate.decode(GOOD.encode()).verify(CHAIN, KEYS)


@pytest.mark.parametrize(
    ("certificate", "error"),
    [
        (replace(GOOD, signatures=GOOD.signatures[:2]), NotEnoughVotesError),
        (replace(GOOD, signatures=()), NotEnoughVotesError),
        (replace(GOOD, signatures=(*GOOD.signatures[:2], GOOD.signatures[1])), CertificateError),
        (replace(GOOD, signatures=GOOD.signatures[::-1]), CertificateError),
        (
            replace(GOOD, signatures=(*GOOD.signatures[:2], (4, GOOD.signatures[2][1]))),
            UnknownValidatorError,
        ),
        (replace(GOOD, signatures=(*GOOD.signatures[:2], (3, GOOD.signatures[2][1]))), VoteSignatureError),
        (replace(GOOD, height=6), VoteSignatureError),
        (replace(GOOD, round_number=1), VoteSignatureError),
        (replace(GOOD, block_id=bytes(32)), VoteSignatureError),
    ],
)
def test_anything_less_does_not(certificate: CommitCertificate, error: type[Exception]) -> None:
    with pytest.raises(CertificateError) as caught:
        certificate.verify(CHAIN, KEYS)
    assert type(caught.value) is error


def test_votes_of_another_chain_or_step_do_not_count() -> None:
    with pytest.raises(VoteSignatureError):
        GOOD.verify("other-chain", KEYS)
    prevotes = [vote(number, BLOCK, 5, VoteKind.PREVOTE) for number in (0, 1, 2)]
    signatures = tuple((each.validator, each.signature) for each in prevotes)
    with pytest.raises(VoteSignatureError):
        replace(GOOD, signatures=signatures).verify(CHAIN, KEYS)


def test_one_validator_twice_counts_once() -> None:
    certificate = certify([vote(0, BLOCK, 5), vote(0, BLOCK, 5), vote(1, BLOCK, 5)])
    assert len(certificate.signatures) == 2
    with pytest.raises(DecodeError, match="strictly ascending order"):
        CommitCertificate.decode(replace(GOOD, signatures=GOOD.signatures[:1] * 3).encode())


def test_only_precommits_that_agree_make_a_certificate() -> None:
    with pytest.raises(ValueError, match="do not agree"):
        certify([vote(0, BLOCK, 5), vote(1, BLOCK, 6)])
    with pytest.raises(ValueError, match="only precommits"):
        certify([vote(0, BLOCK, 5, VoteKind.PREVOTE)])
    with pytest.raises(ValueError, match="only precommits"):
        certify([vote(0, None, 5)])


@pytest.mark.parametrize(
    ("kind", "step"), [(VoteKind.PREVOTE, Step.PREVOTE), (VoteKind.PRECOMMIT, Step.PRECOMMIT)]
)
@pytest.mark.parametrize("block_id", [None, BLOCK])
def test_validators_sign_the_bytes_that_certificates_are_checked_with(
    kind: VoteKind, step: Step, block_id: bytes | None
) -> None:
    assert sign_bytes(CHAIN, Vote(step, 5, 2, block_id, 0)) == vote_bytes(CHAIN, kind, 5, 2, block_id)


def test_a_storage_receipt_is_for_one_party_batch_and_chain() -> None:
    key = key_of("s0")
    receipt = sign_storage_receipt(CHAIN, "s0", BLOCK, key)
    receipt.verify(CHAIN, key.public)
    for wrong in (replace(receipt, party="s1"), replace(receipt, digest=bytes(32))):
        with pytest.raises(SignatureError):
            wrong.verify(CHAIN, key.public)
    with pytest.raises(SignatureError):
        receipt.verify("other-chain", key.public)
    with pytest.raises(SignatureError):
        receipt.verify(CHAIN, key_of("s1").public)


def test_an_absence_is_no_receipt_and_says_when() -> None:
    key = key_of("s0")
    absence = sign_storage_absence(CHAIN, "s0", BLOCK, 9, key)
    absence.verify(CHAIN, key.public)
    with pytest.raises(SignatureError):
        replace(absence, height=10).verify(CHAIN, key.public)
    receipt = sign_storage_receipt(CHAIN, "s0", BLOCK, key)
    with pytest.raises(SignatureError):
        replace(absence, signature=receipt.signature).verify(CHAIN, key.public)
