"""Every rule of algorithm 1, by hand; the numbers are the paper's lines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kabis.ordering.bench import (
    BAD,
    LATE,
    PRECOMMIT,
    PREVOTE,
    PROPOSE,
    A,
    B,
    Bench,
    certificate,
    proposal,
    vote,
    votes,
)
from veristream.kabis.ordering.messages import Commit


def started(index: int = 0) -> Bench:
    bench = Bench(index)
    bench.start()
    return bench


def locked_on_a() -> Bench:
    """Validator 0 after round 0, in which it locked a."""
    bench = started()
    said = bench.hear(proposal(0, A), *votes(PREVOTE, (1, 2), 0, A))
    assert said == ["prevote 0 a", "precommit 0 a"]
    return bench


def in_round(number: int, bench: Bench | None = None) -> Bench:
    """A validator that was brought to a round by its precommit timeouts."""
    bench = bench or started()
    for earlier in range(number):
        bench.hear(*votes(PRECOMMIT, (1, 2, 3), earlier, None))
        bench.time_out(PRECOMMIT, earlier)
    assert bench.machine.round == number
    return bench


class TestStartRound:
    def test_11_to_19_the_proposer_proposes_its_own_value(self) -> None:
        assert Bench(1).start() == ["propose 0 a -1", "prevote 0 a"]

    def test_20_and_21_others_wait_for_the_proposal(self) -> None:
        assert Bench(0).start() == ["wait propose 0 30"]

    def test_15_and_16_the_proposer_proposes_its_valid_value_with_the_proof(self) -> None:
        bench = in_round(3, locked_on_a())
        sent = [message for message in bench.resend() if getattr(message, "proof", None)]
        assert [message.proof for message in sent] == [certificate(PREVOTE, (0, 1, 2), 0, A)]
        assert (sent[0].valid_round, sent[0].value) == (0, A)

    def test_21_waits_grow_with_the_rounds(self) -> None:
        bench = started()
        bench.hear(*votes(PRECOMMIT, (1, 2, 3), 0, None))
        assert bench.time_out(PRECOMMIT, 0) == ["wait propose 1 35"]


class TestPrevoteFresh:
    @pytest.mark.parametrize(("what", "said"), [(A, "a"), (BAD, "nil"), (LATE, "nil")])
    def test_22_to_26_without_a_lock_a_valid_value_is_prevoted(self, what: object, said: str) -> None:
        assert started().hear(proposal(0, what)) == [f"prevote 0 {said}"]

    @pytest.mark.parametrize(("what", "said"), [(A, "a"), (B, "nil")])
    def test_23_with_a_lock_only_the_locked_value_is_prevoted(self, what: object, said: str) -> None:
        bench = in_round(1, locked_on_a())
        assert bench.hear(proposal(1, what)) == [f"prevote 1 {said}"]

    def test_22_a_second_proposal_is_not_voted_on(self) -> None:
        bench = started()
        assert bench.hear(proposal(0, A), proposal(0, B)) == ["prevote 0 a", "conflict of 1"]

    def test_22_a_proposal_of_another_round_is_not_voted_on(self) -> None:
        assert started().hear(proposal(1, A)) == []
        assert in_round(1).hear(proposal(0, A)) == []


class TestPrevoteProved:
    def test_28_a_claimed_valid_round_needs_its_prevotes(self) -> None:
        bench = in_round(1)
        assert bench.hear(proposal(1, B, 0), *votes(PREVOTE, (1, 2), 0, B)) == []
        assert bench.hear(vote(PREVOTE, 3, 0, B)) == ["prevote 1 b"]

    def test_28_the_proof_comes_with_the_proposal(self) -> None:
        proof = certificate(PREVOTE, (1, 2, 3), 0, B)
        assert in_round(1).hear(proposal(1, B, 0, proof=proof)) == ["prevote 1 b"]

    def test_28_a_proof_of_two_is_none(self) -> None:
        proof = certificate(PREVOTE, (1, 2), 0, B)
        assert in_round(1).hear(proposal(1, B, 0, proof=proof)) == []

    def test_28_a_proof_of_another_value_is_none(self) -> None:
        proof = certificate(PREVOTE, (1, 2, 3), 0, A)
        assert in_round(1).hear(proposal(1, B, 0, proof=proof)) == []

    @pytest.mark.parametrize("valid_round", [1, 2])
    def test_28_the_valid_round_is_an_earlier_one(self, valid_round: int) -> None:
        bench = in_round(1)
        claimed = votes(PREVOTE, (1, 2, 3), valid_round, B)
        bench.hear(*claimed[:1])  # two of a later round would make it skip there
        assert bench.hear(proposal(1, B, valid_round)) == []

    def test_29_a_lock_gives_way_to_a_later_proof(self) -> None:
        bench = in_round(2, locked_on_a())
        proof = certificate(PREVOTE, (1, 2, 3), 1, B)
        assert bench.hear(proposal(2, B, 1, proof=proof)) == ["prevote 2 b"]
        assert bench.locked == ("a", 0, "a", 0)

    def test_29_a_lock_gives_way_to_a_proof_of_its_own_round(self) -> None:
        bench = in_round(1, locked_on_a())  # impossible with one Byzantine validator, but the rule says <=
        proof = certificate(PREVOTE, (1, 2, 3), 0, B)
        assert bench.hear(proposal(1, B, 0, proof=proof)) == ["prevote 1 b"]

    def test_29_a_lock_does_not_give_way_to_an_earlier_proof(self) -> None:
        bench = in_round(1)
        bench.hear(proposal(1, A), *votes(PREVOTE, (1, 2), 1, A))
        assert bench.locked == ("a", 1, "a", 1)
        in_round(1, bench)
        bench.hear(*votes(PRECOMMIT, (1, 2, 3), 1, None))
        bench.time_out(PRECOMMIT, 1)
        proof = certificate(PREVOTE, (1, 2, 3), 0, B)
        assert bench.hear(proposal(2, B, 0, proof=proof)) == ["prevote 2 nil"]

    def test_29_an_invalid_value_is_not_prevoted_whatever_the_proof(self) -> None:
        proof = certificate(PREVOTE, (1, 2, 3), 0, BAD)
        assert in_round(1).hear(proposal(1, BAD, 0, proof=proof)) == ["prevote 1 nil"]

    def test_29_a_proved_value_need_not_be_timely(self) -> None:
        proof = certificate(PREVOTE, (1, 2, 3), 0, LATE)
        assert in_round(1).hear(proposal(1, LATE, 0, proof=proof)) == ["prevote 1 late"]


class TestPrecommit:
    def test_34_and_35_a_quorum_of_any_prevotes_starts_one_timeout(self) -> None:
        bench = started()
        bench.time_out(PROPOSE, 0)
        assert bench.hear(vote(PREVOTE, 1, 0, A)) == []
        assert bench.hear(vote(PREVOTE, 2, 0, B)) == ["wait prevote 0 20"]
        assert bench.hear(vote(PREVOTE, 3, 0, B)) == []

    def test_34_not_before_its_own_prevote(self) -> None:
        bench = started()
        assert bench.hear(*votes(PREVOTE, (1, 2, 3), 0, A)) == []
        assert bench.time_out(PROPOSE, 0) == ["prevote 0 nil", "wait prevote 0 20"]

    def test_36_to_43_a_quorum_of_prevotes_locks(self) -> None:
        bench = started()
        assert bench.hear(proposal(0, A), vote(PREVOTE, 1, 0, A)) == ["prevote 0 a"]
        assert bench.locked == (None, -1, None, -1)
        assert bench.hear(vote(PREVOTE, 2, 0, A)) == ["precommit 0 a"]
        assert bench.locked == ("a", 0, "a", 0)

    def test_36_the_proposal_must_be_there(self) -> None:
        bench = started()
        bench.time_out(PROPOSE, 0)
        bench.hear(*votes(PREVOTE, (1, 2, 3), 0, A))
        assert bench.locked == (None, -1, None, -1)
        assert bench.hear(proposal(0, A)) == ["precommit 0 a"]

    def test_36_nothing_is_locked_before_its_own_prevote(self) -> None:
        bench = in_round(1)
        assert bench.hear(proposal(1, A, 0), *votes(PREVOTE, (1, 2, 3), 1, A)) == []
        assert bench.locked == (None, -1, None, -1)
        assert bench.time_out(PROPOSE, 1) == ["prevote 1 nil", "precommit 1 a"]
        assert bench.locked == ("a", 1, "a", 1)

    def test_36_an_invalid_value_is_not_locked(self) -> None:
        bench = started()
        assert bench.hear(proposal(0, BAD), *votes(PREVOTE, (1, 2, 3), 0, BAD)) == [
            "prevote 0 nil",
            "wait prevote 0 20",
        ]
        assert bench.locked == (None, -1, None, -1)

    def test_42_and_43_after_its_precommit_only_the_valid_value_changes(self) -> None:
        bench = started()
        bench.hear(proposal(0, A))
        bench.hear(*votes(PREVOTE, (1, 2), 0, None))
        assert bench.time_out(PREVOTE, 0) == ["precommit 0 nil"]
        assert bench.hear(*votes(PREVOTE, (1, 2), 0, A)) == ["conflict of 1", "conflict of 2"]
        assert bench.locked == (None, -1, "a", 0)

    def test_44_to_46_a_quorum_of_nil_precommits_nil(self) -> None:
        bench = started()
        bench.time_out(PROPOSE, 0)
        assert bench.hear(*votes(PREVOTE, (1, 2), 0, None)) == ["precommit 0 nil"]

    def test_44_two_and_another_are_no_quorum_of_nil(self) -> None:
        bench = started()
        bench.time_out(PROPOSE, 0)
        assert bench.hear(vote(PREVOTE, 1, 0, None), vote(PREVOTE, 2, 0, A)) == ["wait prevote 0 20"]


class TestDecide:
    def test_47_and_48_a_quorum_of_any_precommits_starts_one_timeout(self) -> None:
        bench = started()
        said = bench.hear(vote(PRECOMMIT, 1, 0, A), vote(PRECOMMIT, 2, 0, None), vote(PRECOMMIT, 3, 0, B))
        assert said == ["wait precommit 0 10"]

    def test_49_to_51_a_quorum_of_precommits_decides(self) -> None:
        bench = locked_on_a()
        assert bench.hear(vote(PRECOMMIT, 1, 0, A)) == []
        assert bench.hear(vote(PRECOMMIT, 2, 0, A)) == ["decide 1 a by 012"]

    def test_49_nothing_more_is_decided_at_the_height(self) -> None:
        bench = locked_on_a()
        assert bench.hear(*votes(PRECOMMIT, (1, 2, 3), 0, A)) == ["decide 1 a by 012"]
        assert bench.hear(proposal(1, B), *votes(PRECOMMIT, (1, 2, 3), 1, B)) == []
        assert bench.hear(Commit(B, certificate(PRECOMMIT, (1, 2, 3), 1, B))) == []
        assert bench.start() == []
        assert bench.time_out(PRECOMMIT, 0) == []

    def test_49_an_earlier_round_decides_too(self) -> None:
        bench = in_round(2)
        assert bench.hear(proposal(0, A), *votes(PREVOTE, (1, 2, 3), 0, A)) == []
        said = bench.hear(*votes(PRECOMMIT, (1, 2, 3), 0, A))
        assert said == ["conflict of 1", "conflict of 2", "conflict of 3", "decide 1 a by 123"]

    def test_50_an_invalid_value_is_not_decided(self) -> None:
        said = started().hear(proposal(0, BAD), *votes(PRECOMMIT, (1, 2, 3), 0, BAD))
        assert said == ["prevote 0 nil", "wait precommit 0 10"]

    def test_49_a_commit_decides_by_itself(self) -> None:
        assert started().hear(Commit(B, certificate(PRECOMMIT, (1, 2, 3), 7, B))) == ["decide 1 b by 123"]

    @pytest.mark.parametrize(
        "commit",
        [
            Commit(B, certificate(PRECOMMIT, (1, 2), 0, B)),
            Commit(B, certificate(PREVOTE, (1, 2, 3), 0, B)),
            Commit(B, certificate(PRECOMMIT, (1, 2, 3), 0, A)),
            Commit(B, certificate(PRECOMMIT, (1, 2, 3), 0, B, height=2)),
            Commit(B, certificate(PRECOMMIT, (1, 1, 2), 0, B)),
            Commit(B, certificate(PRECOMMIT, (1, 2, 4), 0, B)),
            Commit(BAD, certificate(PRECOMMIT, (1, 2, 3), 0, BAD)),
        ],
        ids=[
            "two votes",
            "prevotes",
            "other value",
            "other height",
            "one twice",
            "no validator",
            "invalid",
        ],
    )
    def test_49_a_commit_that_proves_nothing_decides_nothing(self, commit: Commit) -> None:
        assert started().hear(commit) == []

    def test_52_to_54_the_next_height_starts_afresh(self) -> None:
        bench = locked_on_a()
        bench.hear(*votes(PRECOMMIT, (1, 2), 0, A))
        assert bench.hear(proposal(0, B, height=2)) == []
        assert bench.start(2) == ["wait propose 0 30", "prevote 0 b"]
        assert bench.locked == (None, -1, None, -1)

    def test_50_validity_is_judged_anew_at_each_height(self) -> None:
        bench = started()
        valid = replace(
            bench.machine.application, valid=lambda value: bench.machine.height == 2 or value == A
        )
        bench.machine.application = valid
        assert bench.hear(proposal(0, B)) == ["prevote 0 nil"]
        bench.hear(Commit(A, certificate(PRECOMMIT, (1, 2, 3), 0, A)))
        bench.start(2)
        assert bench.hear(proposal(0, B, height=2)) == ["prevote 0 b"]


class TestRounds:
    def test_55_and_56_two_validators_ahead_pull_it_along(self) -> None:
        bench = started()
        assert bench.hear(vote(PREVOTE, 1, 5, A)) == []
        assert bench.hear(vote(PRECOMMIT, 1, 5, A)) == []
        assert bench.hear(vote(PREVOTE, 2, 5, None)) == ["wait propose 5 55"]

    def test_55_two_validators_in_different_rounds_do_not(self) -> None:
        assert started().hear(vote(PREVOTE, 1, 5, A), vote(PREVOTE, 2, 4, A)) == []

    def test_55_a_proposal_and_a_vote_count(self) -> None:
        assert started().hear(proposal(2, A), vote(PREVOTE, 1, 2, A)) == [
            "wait propose 2 40",
            "prevote 2 a",
        ]

    def test_57_to_60_no_proposal_in_time(self) -> None:
        bench = started()
        assert bench.time_out(PROPOSE, 0) == ["prevote 0 nil"]
        assert bench.time_out(PROPOSE, 0) == []
        assert bench.hear(proposal(0, A)) == []

    def test_61_to_64_no_quorum_for_a_value_in_time(self) -> None:
        bench = started()
        assert bench.time_out(PREVOTE, 0) == []
        bench.hear(proposal(0, A))
        assert bench.time_out(PREVOTE, 0) == ["precommit 0 nil"]
        assert bench.time_out(PREVOTE, 0) == []

    def test_65_to_67_no_decision_in_time(self) -> None:
        bench = started(2)
        assert bench.time_out(PRECOMMIT, 0) == ["propose 1 a -1", "prevote 1 a"]
        assert bench.time_out(PRECOMMIT, 0) == []

    @pytest.mark.parametrize("step", [PROPOSE, PREVOTE, PRECOMMIT])
    def test_57_to_67_timeouts_of_another_height_or_round_do_nothing(self, step: object) -> None:
        assert started().time_out(step, 1) == []
        assert started().time_out(step, 0, height=2) == []
