"""Whatever arrives: bounded memory, no crash, nothing counted that does not count."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kabis.ordering.bench import (
    COMMITTEE,
    PRECOMMIT,
    PREVOTE,
    PROPOSE,
    VERIFIER,
    A,
    B,
    Bench,
    certificate,
    proposal,
    signed,
    vote,
    votes,
)
from veristream.kabis.ordering.interface import Received, Resend, Timeout
from veristream.kabis.ordering.log import PROPOSALS_MAX, ROUNDS_AHEAD, ROUNDS_BEHIND
from veristream.kabis.ordering.messages import Commit, Committee, Message, MessageError, Step, Value, Vote
from veristream.kabis.protocol.codec import DecodeError
from veristream_testing.simulation.encoding import decode_message, encode_message


def started() -> Bench:
    bench = Bench()
    bench.start()
    return bench


def kept(bench: Bench) -> int:
    logs = (bench.machine.log, bench.machine.next_log)
    return sum(len(log.messages()) for both in logs for log in both.rounds.values())


def other(number: int) -> Value:
    content = b"other %d" % number
    return Value(sha256(content).digest(), content)


def test_votes_of_one_validator_for_many_values_are_not_all_kept() -> None:
    bench = started()
    said = bench.hear(*[vote(PREVOTE, 3, 0, other(number)) for number in range(1_000)])
    assert said == ["conflict of 3"]
    assert kept(bench) == 2


def test_a_vote_for_a_known_proposal_is_kept_after_a_flood() -> None:
    bench = started()
    bench.hear(*[vote(PREVOTE, 3, 0, other(number)) for number in range(1_000)])
    bench.hear(proposal(0, A), vote(PREVOTE, 2, 0, A))
    assert bench.hear(vote(PREVOTE, 3, 0, A)) == ["precommit 0 a"]


def test_rounds_far_ahead_of_one_validator_are_not_all_kept() -> None:
    bench = started()
    assert bench.hear(*[vote(PREVOTE, 3, number, A) for number in range(1, 1_000)]) == []
    assert sorted(bench.machine.log.rounds) == list(range(1_000 - ROUNDS_AHEAD, 1_000))
    assert kept(bench) == ROUNDS_AHEAD


def test_a_flood_of_rounds_ahead_does_not_hide_where_the_others_are() -> None:
    bench = started()
    bench.hear(*[vote(PREVOTE, 3, number, A) for number in range(1, 1_000)])
    assert bench.hear(vote(PREVOTE, 1, 50, A)) == []
    assert bench.hear(vote(PREVOTE, 2, 50, A)) == ["wait propose 50 280"]


def test_proposals_of_one_round_are_not_all_kept() -> None:
    bench = started()
    said = bench.hear(*[proposal(0, other(number)) for number in range(100)])
    assert said[-1] == "conflict of 1" and len(said) == 2
    assert len(bench.machine.log.round(0).proposals) == PROPOSALS_MAX


def test_a_third_proposal_is_kept_once_a_proof_is_about_it() -> None:
    bench = started()
    bench.hear(proposal(0, other(1)), proposal(0, other(2)))
    assert bench.hear(proposal(0, A)) == []
    bench.hear(certificate(PREVOTE, (1, 2, 3), 0, A))
    assert bench.hear(proposal(0, A)) == ["precommit 0 a"]


def test_rounds_long_gone_are_forgotten() -> None:
    bench = started()
    for number in range(1, 100):
        bench.hear(*votes(PREVOTE, (1, 2), number, None))
    assert min(bench.machine.log.rounds) == 99 - ROUNDS_BEHIND
    before = kept(bench)
    bench.hear(vote(PREVOTE, 3, 2, A))
    assert kept(bench) == before


def test_heights_other_than_this_and_the_next_are_not_kept() -> None:
    bench = started()
    for height in (0, 3, 4, 1_000_000):
        bench.hear(vote(PREVOTE, 3, 0, A, height=height), proposal(0, A, height=height))
    assert kept(bench) == 0
    bench.hear(vote(PREVOTE, 3, 0, A, height=2))
    assert kept(bench) == 1


@pytest.mark.parametrize("sender", [-1, 4, 1_000])
def test_who_is_no_validator_is_not_heard(sender: int) -> None:
    bench = started()
    stray = Vote(PREVOTE, 1, 0, A.identifier, sender)
    assert bench.hear(stray, replace(stray, round=9), replace(stray, step=PRECOMMIT)) == []
    assert kept(bench) == 0


def test_a_proposal_of_another_than_the_proposer_is_not_heard() -> None:
    bench = started()
    assert bench.hear(signed(replace(proposal(0, A), sender=2))) == []
    assert kept(bench) == 0


def test_a_vote_counts_once() -> None:
    bench = started()
    bench.hear(proposal(0, A))
    assert bench.hear(*[vote(PREVOTE, 1, 0, A)] * 5) == []
    assert bench.hear(*[vote(PRECOMMIT, 1, 0, A)] * 5) == []


def test_a_proposal_passed_on_without_its_proof_does_not_hide_the_proof() -> None:
    bench = started()
    proof = certificate(PREVOTE, (1, 2, 3), 1, B)
    bench.hear(proposal(2, B, 1))
    bench.hear(proposal(2, B, 1, proof=proof))
    assert bench.hear(vote(PREVOTE, 1, 2, B)) == ["wait propose 2 40", "prevote 2 b"]


def test_a_vote_for_nil_is_kept_after_a_flood() -> None:
    bench = started()
    bench.time_out(PROPOSE, 0)
    bench.hear(*[vote(PREVOTE, 3, 0, other(number)) for number in range(10)], vote(PREVOTE, 2, 0, None))
    assert bench.hear(vote(PREVOTE, 3, 0, None)) == ["precommit 0 nil"]


def test_of_rounds_ahead_the_highest_are_kept() -> None:
    bench = started()
    bench.hear(*[vote(PREVOTE, 3, number, A) for number in (10, 11, 12, 13, 5)])
    assert sorted(bench.machine.log.rounds) == [10, 11, 12, 13]


@pytest.mark.parametrize("number", [1, 50])
def test_proofs_of_rounds_ahead_are_not_kept(number: int) -> None:
    bench = started()
    bench.hear(certificate(PREVOTE, (1, 2, 3), number, A))
    assert kept(bench) == 0


def test_nothing_is_heard_before_the_start() -> None:
    bench = Bench()
    assert bench.hear(proposal(0, A), Commit(A, certificate(PRECOMMIT, (1, 2, 3), 0, A))) == []
    assert bench.resend() == [] and bench.time_out(PROPOSE, 0) == []


@pytest.mark.parametrize("size", [0, 2, 3, 5, 6])
def test_a_committee_is_of_three_f_and_one(size: int) -> None:
    with pytest.raises(ValueError, match="must be 3 F"):
        Committee("bench", size)


def test_quorums() -> None:
    assert [(Committee("c", size).faults, Committee("c", size).quorum) for size in (1, 4, 7, 10)] == [
        (0, 1), (1, 3), (2, 5), (3, 7),
    ]  # fmt: skip


GOOD: list[Message] = [
    proposal(0, A),
    proposal(1, A, 0, proof=certificate(PREVOTE, (0, 1, 3), 0, A)),
    vote(PREVOTE, 2, 0, None),
    vote(PRECOMMIT, 2, 3, A),
    certificate(PREVOTE, (0, 1, 2, 3), 0, A),
    Commit(A, certificate(PRECOMMIT, (1, 2, 3), 0, A)),
]

FORGED: dict[str, Message] = {
    "another's vote": replace(vote(PREVOTE, 2, 0, A), sender=1),
    "another value": replace(vote(PREVOTE, 2, 0, A), identifier=B.identifier),
    "another round": replace(vote(PREVOTE, 2, 0, A), round=1),
    "another height": replace(vote(PREVOTE, 2, 0, A), height=2),
    "another step": replace(vote(PREVOTE, 2, 0, A), step=PRECOMMIT),
    "no validator": Vote(PREVOTE, 1, 0, None, 4, bytes(64)),
    "a vote to propose": replace(vote(PREVOTE, 2, 0, None), step=PROPOSE),
    "another content": replace(proposal(0, A), value=Value(A.identifier, b"b")),
    "another valid round": replace(proposal(2, A), valid_round=1),
    "not the proposer": signed(replace(proposal(0, A), sender=2)),
    "a proof of two": proposal(1, A, 0, proof=certificate(PREVOTE, (0, 1), 0, A)),
    "a proof of precommits": proposal(1, A, 0, proof=certificate(PRECOMMIT, (0, 1, 2), 0, A)),
    "a proof without a claim": proposal(1, A, proof=certificate(PREVOTE, (0, 1, 2), 0, A)),
    "a valid round to come": proposal(1, A, 1),
    "a certificate of one thrice": certificate(PREVOTE, (1, 1, 1), 0, A),
    "a certificate out of order": certificate(PREVOTE, (2, 1, 3), 0, A),
    "a certificate with a forged vote": replace(
        certificate(PREVOTE, (1, 2, 3), 0, A), identifier=B.identifier
    ),
    "a commit with a forged vote": Commit(
        A, replace(certificate(PRECOMMIT, (1, 2, 3), 0, B), identifier=A.identifier)
    ),
    "a commit of two": Commit(A, certificate(PRECOMMIT, (1, 2), 0, A)),
    "a commit of another content": Commit(
        Value(A.identifier, b"b"), certificate(PRECOMMIT, (1, 2, 3), 0, A)
    ),
    "a commit of prevotes": Commit(A, certificate(PREVOTE, (1, 2, 3), 0, A)),
    "a commit of another value": Commit(B, certificate(PRECOMMIT, (1, 2, 3), 0, A)),
}


@pytest.mark.parametrize("message", GOOD, ids=lambda message: type(message).__name__)
def test_good_messages_verify_and_survive_their_encoding(message: Message) -> None:
    VERIFIER.verify(message)
    encoded = encode_message(message)
    assert decode_message(encoded) == message
    for wrong in [encoded + b"0", *(encoded[:cut] for cut in range(len(encoded)))]:
        with pytest.raises(DecodeError):
            decode_message(wrong)


@pytest.mark.parametrize("message", FORGED.values(), ids=FORGED)
def test_forged_messages_do_not_verify(message: Message) -> None:
    with pytest.raises(MessageError):
        VERIFIER.verify(message)


@given(st.sampled_from(GOOD), st.data())
def test_changed_bytes_decode_to_nothing_that_verifies(message: Message, data: st.DataObject) -> None:
    encoded = bytearray(encode_message(message))
    at = data.draw(st.integers(0, len(encoded) - 1))
    encoded[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises((DecodeError, MessageError)):
        VERIFIER.verify(decode_message(bytes(encoded)))


@given(st.binary(max_size=300))
def test_random_bytes_are_no_message(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_message(data)
    with pytest.raises((DecodeError, MessageError)):  # with zeros behind it, it can be read: of nobody
        VERIFIER.verify(decode_message(encode_message(GOOD[0])[:30] + data))


VALUES = st.sampled_from([None, A, B, other(1), other(2)])
ROUNDS = st.integers(0, 8) | st.sampled_from([100, 2**32 - 1])
ANY_VOTE = st.builds(
    vote,
    st.sampled_from([PREVOTE, PRECOMMIT]),
    st.integers(0, 3),
    ROUNDS,
    VALUES,
    height=st.integers(0, 3),
)
ANY_PROPOSAL = st.builds(
    proposal,
    ROUNDS,
    VALUES.filter(bool),
    st.integers(-1, 8),
    height=st.integers(1, 2),
    proof=st.none() | st.just(certificate(PREVOTE, (1, 2, 3), 0, A)),
)
ANY_INPUT = st.one_of(
    ANY_VOTE.map(Received),
    ANY_PROPOSAL.map(Received),
    st.builds(Timeout, st.sampled_from(Step), st.just(1), st.integers(0, 8)),
    st.just(Resend()),
)


@settings(max_examples=150)
@given(st.lists(ANY_INPUT, max_size=60))
def test_any_inputs_are_taken_within_bounds(inputs: list[Received | Timeout | Resend]) -> None:
    bench = started()
    for given_input in inputs:
        bench.machine.handle(given_input)
        assert len(bench.machine.log.rounds) <= ROUNDS_BEHIND + 1 + ROUNDS_AHEAD * COMMITTEE.size
        assert len(bench.machine.next_log.rounds) <= ROUNDS_AHEAD * COMMITTEE.size
