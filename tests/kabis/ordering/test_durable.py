"""A validator that crashes anywhere goes on without contradicting itself."""

from __future__ import annotations

import pytest

from tests.kabis.ordering.bench import PRECOMMIT, PREVOTE, PROPOSE, A, B, Bench, proposal, vote, votes
from veristream.kabis.ordering.durable import decode_record, encode_record
from veristream.kabis.ordering.interface import Broadcast, Persist, Received, Start, Timeout
from veristream.kabis.ordering.messages import Certificate
from veristream.kabis.protocol.codec import DecodeError
from veristream_testing.simulation.votes import recover


def test_what_is_signed_is_persisted_before_it_is_sent() -> None:
    bench = Bench(1)
    kinds = [type(output) for output in bench.machine.handle(Start(1))]
    assert kinds == [Persist, Broadcast, Persist, Broadcast]


def test_the_lock_is_persisted_before_the_precommit() -> None:
    bench = Bench()
    bench.start()
    bench.hear(proposal(0, A), vote(PREVOTE, 1, 0, A))
    outputs = bench.machine.handle(Received(vote(PREVOTE, 2, 0, A)))
    assert [type(output) for output in outputs] == [Persist, Persist, Broadcast]
    locked = recover([outputs[0].record]).lock(1)
    assert (locked.locked_value, locked.locked_round) == (A, 0)


def test_after_a_restart_the_same_vote_is_said_again_and_no_other() -> None:
    bench = Bench()
    bench.start()
    bench.hear(proposal(0, A))
    again = Bench(records=bench.records)
    assert again.start() == ["prevote 0 a"]
    assert again.hear(proposal(0, B)) == []
    assert again.time_out(PROPOSE, 0) == []


def test_after_a_restart_the_same_proposal_is_made_again() -> None:
    bench = Bench(1)
    bench.start()
    after_proposing = Bench(1, bench.records[:1], proposes=B)
    assert after_proposing.start() == ["propose 0 a -1", "prevote 0 a"]
    assert Bench(1, bench.records, proposes=B).start() == ["propose 0 a -1", "prevote 0 a"]


def test_after_a_restart_the_lock_still_holds() -> None:
    bench = Bench()
    bench.start()
    bench.hear(proposal(0, A), *votes(PREVOTE, (1, 2), 0, A))
    again = Bench(records=bench.records)
    assert again.start() == ["prevote 0 a", "precommit 0 a"]
    assert again.time_out(PREVOTE, 0) == []
    assert again.locked == ("a", 0, "a", 0)
    again.hear(*votes(PRECOMMIT, (1, 2, 3), 0, None))
    again.time_out(PRECOMMIT, 0)
    assert again.hear(proposal(1, B)) == ["prevote 1 nil"]


def test_after_a_restart_it_can_still_show_the_proof_of_its_valid_value() -> None:
    bench = Bench()
    bench.start()
    bench.hear(proposal(0, A), *votes(PREVOTE, (1, 2), 0, A))
    bench.hear(*votes(PRECOMMIT, (1, 2, 3), 2, None))
    again = Bench(records=bench.records)
    again.start()
    assert again.machine.round == 2
    assert [message.round for message in again.resend() if isinstance(message, Certificate)] == [0]


def test_after_a_restart_it_can_still_show_why_it_is_in_its_round() -> None:
    bench = Bench()
    bench.start()
    reasons = votes(PRECOMMIT, (1, 2, 3), 0, None)
    bench.hear(*reasons)
    bench.time_out(PRECOMMIT, 0)
    bench.time_out(PROPOSE, 1)
    again = Bench(records=bench.records)
    assert again.start() == ["prevote 1 nil"]
    assert set(reasons) <= set(again.resend())


def test_records_of_a_decided_height_do_not_bind_the_next() -> None:
    bench = Bench()
    bench.start()
    bench.hear(proposal(0, A), *votes(PREVOTE, (1, 2), 0, A), *votes(PRECOMMIT, (1, 2), 0, A))
    again = Bench(records=bench.records)
    assert again.start(2) == ["wait propose 0 30"]
    assert again.locked == (None, -1, None, -1)
    assert not (again.machine.memory.signed or again.machine.memory.locks or again.machine.memory.entries)


LONG_RUN = (
    Start(1),
    Received(proposal(0, A)),
    Received(vote(PREVOTE, 1, 0, A)),
    Received(vote(PREVOTE, 2, 0, A)),
    Received(vote(PRECOMMIT, 1, 0, None)),
    Received(vote(PRECOMMIT, 2, 0, None)),
    Timeout(PRECOMMIT, 1, 0),
    Timeout(PROPOSE, 1, 1),
    Received(vote(PREVOTE, 1, 1, None)),
    Received(vote(PREVOTE, 2, 1, None)),
    Received(vote(PREVOTE, 1, 3, None)),
    Received(vote(PREVOTE, 2, 3, None)),
    Received(vote(PREVOTE, 3, 3, A)),
)


def sent_in(bench: Bench, inputs: tuple[object, ...]) -> dict[tuple[int, object], object]:
    """What it signs, by round and kind; two statements in one place are a failure."""
    sent: dict[tuple[int, object], object] = {}
    for given in inputs:
        for output in bench.machine.handle(given):
            if isinstance(output, Broadcast) and output.message.sender == bench.index:
                place = (output.message.round, getattr(output.message, "step", PROPOSE))
                assert sent.setdefault(place, output.message) == output.message
    return sent


def test_a_crash_after_any_record_leads_to_no_contradiction() -> None:
    whole = Bench()
    whole.give(*LONG_RUN)
    records = whole.records
    assert len(records) == 9
    signed_at_first = sent_in(Bench(), LONG_RUN)
    assert sorted((number, int(step)) for number, step in signed_at_first) == [
        (0, 1), (0, 2), (1, 1), (1, 2), (3, 0), (3, 1),
    ]  # fmt: skip
    for kept in range(len(records) + 1):
        durable = recover(records[:kept])
        bound = {
            (once.message.round, once.step): once.message
            for in_round in durable.signed.values()
            for once in in_round.values()
        }
        again = sent_in(
            Bench(records=records[:kept], proposes=B), (Start(1), Timeout(PROPOSE, 1, 0), *LONG_RUN)
        )
        assert {place: again[place] for place in bound} == bound


def test_records_are_decoded_as_they_were_encoded() -> None:
    bench = Bench()
    bench.give(*LONG_RUN)
    for record in bench.records:
        assert encode_record(decode_record(record)) == record
        for wrong in [record + b"0", *(record[:cut] for cut in range(len(record)))]:
            with pytest.raises(DecodeError):
                decode_record(wrong)
