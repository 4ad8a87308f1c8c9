"""What waits for a block, within its limits; batches are real, what becomes of them is as the test says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kabis.chain import Chain, batch_of, submitted
from veristream.kabis.ordering.mempool import ALTERNATIVES_MAX, SOON_AUTHOR_MAX, SOON_MAX, Limits, Mempool
from veristream.kabis.protocol.actions import JoinGroup, SetTopic
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.protocol.outcomes import Admitted, Already, Done, Outcome, Reason, Refused

GOOD, EARLY, BAD = Admitted(0, 1), Refused(Reason.EARLY), Refused(Reason.BAD_SIGNATURE)
SOON = Refused(Reason.KEY_NOT_YET_VALID)


def batch(sequence: int, producer: str = "alice", value: bytes = b"x") -> bytes:
    made = batch_of(value, sequence=sequence, previous=ZERO_DIGEST, producer=producer)
    return submitted(made).encode()


def action(number: int) -> bytes:
    return Chain().act("admin", SetTopic(f"topic-{number}", 1, validated=True), number=number).encode()


def add(mempool: Mempool, outcome: Outcome, *transactions: bytes, now_ms: int = 0) -> list[bool]:
    return [mempool.add(encoded, now_ms, lambda _: outcome)[1] for encoded in transactions]


def ready(mempool: Mempool) -> list[bytes]:
    return list(mempool.candidates(1000))


def never(encoded: bytes) -> Outcome:
    raise AssertionError("this need not be judged")


@pytest.mark.parametrize(
    ("outcome", "kept"), [(GOOD, 1), (Done(), 1), (EARLY, 1), (SOON, 1), (BAD, 0), (Already(), 0)]
)
def test_what_may_take_effect_is_kept(outcome: Outcome, kept: int) -> None:
    mempool = Mempool()
    assert mempool.add(batch(0), 0, lambda _: outcome) == (outcome, bool(kept))
    assert len(mempool) == kept
    assert len(ready(mempool)) == (1 if outcome in (GOOD, Done()) else 0)


def test_a_transaction_is_kept_once_and_judged_once() -> None:
    mempool = Mempool()
    add(mempool, GOOD, batch(0))
    assert mempool.add(batch(0), 0, never) == (GOOD, False)
    assert len(mempool) == 1


def test_an_author_s_oldest_come_first() -> None:
    mempool = Mempool()
    transactions = [action(2), action(3), action(1)]
    add(mempool, Done(), *transactions)
    assert ready(mempool) == transactions
    assert list(mempool.candidates(2)) == transactions[:2]


def test_authors_take_turns() -> None:
    mempool = Mempool()
    flood = [batch(sequence) for sequence in range(50)]
    add(mempool, GOOD, *flood, batch(0, "clara"), batch(1, "clara"), batch(2, "clara"))
    expected = [flood[0], batch(0, "clara"), flood[1], batch(1, "clara"), flood[2], batch(2, "clara")]
    assert list(mempool.candidates(6)) == expected
    assert ready(mempool)[6:] == flood[3:]


def test_authors_share_a_block_by_bytes() -> None:
    mempool = Mempool(Limits(author_block_bytes=3 * len(batch(0))))
    topics = tuple(f"topic-{number:04}" for number in range(500))
    joins = [
        Chain().act("bob", JoinGroup("group", "0", topics, 1000), number=number).encode()
        for number in (1, 2)
    ]
    add(mempool, Done(), *joins, *(batch(sequence) for sequence in range(9)))
    assert ready(mempool) == [joins[0], batch(0), batch(1), batch(2)]


def test_of_the_longest_transactions_an_author_has_one_in_a_block() -> None:
    topics = tuple(f"{number:04}-{'x' * 100}" for number in range(1000))
    joins = [
        Chain().act("bob", JoinGroup("group", f"{number}", topics, 1000), number=number).encode()
        for number in (1, 2)
    ]
    assert len(joins[0]) > 100_000
    mempool = Mempool()
    add(mempool, Done(), *joins, batch(0))
    assert ready(mempool) == [joins[0], batch(0)]


def test_an_author_has_only_so_many_transactions_in_a_block() -> None:
    mempool = Mempool(Limits(author_block_count=3))
    flood = [batch(sequence) for sequence in range(9)]
    add(mempool, GOOD, *flood, batch(0, "clara"))
    assert ready(mempool) == [flood[0], batch(0, "clara"), *flood[1:3]]
    mempool.decided(flood[:3], never)
    assert ready(mempool) == [batch(0, "clara"), *flood[3:6]]


def test_who_had_a_turn_comes_last_in_the_next_block() -> None:
    mempool = Mempool()
    add(mempool, GOOD, *(batch(each, who) for each in range(2) for who in ("alice", "clara", "admin")))
    first = list(mempool.candidates(2))
    assert first == [batch(0), batch(0, "clara")]
    mempool.decided(first, never)
    assert list(mempool.candidates(2)) == [batch(0, "admin"), batch(1)]


def test_a_full_queue_makes_room_for_authors_with_less() -> None:
    mempool = Mempool(Limits(count_max=4))
    add(mempool, GOOD, *(batch(sequence) for sequence in range(4)))
    assert add(mempool, GOOD, batch(4)) == [False]
    assert add(mempool, GOOD, batch(0, "clara"), batch(1, "clara")) == [True, True]
    assert ready(mempool) == [batch(0), batch(0, "clara"), batch(1), batch(1, "clara")]
    assert add(mempool, GOOD, batch(2, "clara"), batch(4)) == [False, False]
    assert len(mempool) == 4


def test_what_is_not_worth_keeping_displaces_nothing() -> None:
    mempool = Mempool(Limits(count_max=2))
    add(mempool, GOOD, batch(0), batch(1))
    assert add(mempool, BAD, batch(0, "bob")) == [False]
    assert ready(mempool) == [batch(0), batch(1)]


def test_a_full_queue_makes_room_by_bytes_too() -> None:
    mempool = Mempool(Limits(bytes_max=3 * len(batch(0))))
    add(mempool, GOOD, batch(0), batch(1), batch(2))
    assert add(mempool, GOOD, batch(3), action(1)) == [False, True]
    assert ready(mempool) == [batch(0), action(1), batch(1)]


def test_a_batch_waits_for_its_predecessor_and_then_follows_it() -> None:
    mempool = Mempool()
    add(mempool, EARLY, batch(3), batch(1), batch(2))
    assert ready(mempool) == []
    add(mempool, GOOD, batch(0))
    assert ready(mempool) == [batch(0), batch(1), batch(2), batch(3)]
    assert [mempool.add(batch(sequence), 0, never) for sequence in (0, 3)] == [
        (GOOD, False),
        (Done(), False),
    ]
    assert mempool.add(batch(4), 0, lambda _: EARLY) == (Done(), True)
    assert mempool.add(batch(6), 0, lambda _: EARLY) == (EARLY, True)
    assert ready(mempool)[4:] == [batch(4)]


def test_a_batch_of_another_stream_is_no_predecessor() -> None:
    mempool = Mempool()
    add(mempool, EARLY, batch(1, "bob"))
    add(mempool, GOOD, batch(0))
    assert ready(mempool) == [batch(0)]


def test_what_is_decided_leaves_and_what_waited_for_it_is_ready() -> None:
    mempool = Mempool()
    add(mempool, EARLY, batch(1), batch(2), batch(5))
    add(mempool, Done(), action(1))
    mempool.decided([batch(0), action(1), b"unreadable"], never)  # we never had the first
    assert ready(mempool) == [batch(1), batch(2)]
    assert len(mempool) == 3


def test_what_has_no_effect_any_more_is_let_go_up_to_the_first_that_has() -> None:
    mempool = Mempool()
    transactions = [batch(7), action(1), action(2), action(3)]
    add(mempool, Done(), *transactions)
    became = dict(zip(transactions, (EARLY, Already(), Done(), BAD), strict=True))
    assert mempool.find_effective(became.__getitem__)
    assert ready(mempool) == [action(2), action(3)]
    assert len(mempool) == 3  # one waits
    assert not mempool.find_effective(lambda _: BAD)
    assert ready(mempool) == [] and len(mempool) == 1


def test_a_review_lets_go_what_a_block_left_out_for_good() -> None:
    mempool = Mempool()
    add(mempool, Done(), action(1), action(2), action(3))
    mempool.review([action(2), action(3)], lambda encoded: Already() if encoded == action(2) else Done())
    assert ready(mempool) == [action(1), action(3)]


def test_a_key_that_becomes_valid_is_judged_after_the_next_block() -> None:
    mempool = Mempool()
    add(mempool, SOON, action(1), action(2))
    mempool.decided([], lambda encoded: Done() if encoded == action(1) else BAD)
    assert ready(mempool) == [action(1)] and len(mempool) == 1


def test_the_count_is_limited_and_deciding_makes_room() -> None:
    mempool = Mempool(Limits(count_max=2))
    assert add(mempool, GOOD, action(1), action(2), action(3)) == [True, True, False]
    outcome, _ = mempool.add(action(3), 0, never)
    assert isinstance(outcome, Refused) and outcome.reason is Reason.TOO_MANY
    mempool.decided([action(1)], never)
    assert add(mempool, GOOD, action(3), action(4)) == [True, False]


def test_the_bytes_are_limited() -> None:
    size = len(action(1))
    mempool = Mempool(Limits(bytes_max=2 * size))
    assert add(mempool, GOOD, action(1), action(2), action(3)) == [True, True, False]


@pytest.mark.parametrize("limits", [Limits(author_count_max=2), Limits(author_bytes_max=2 * len(batch(0)))])
def test_an_author_takes_no_more_than_its_share(limits: Limits) -> None:
    mempool = Mempool(limits)
    assert add(mempool, GOOD, batch(0), batch(1), batch(2)) == [True, True, False]
    assert add(mempool, EARLY, batch(9)) == [False]
    assert add(mempool, GOOD, batch(0, "bob")) == [True]
    mempool.decided([batch(0)], never)
    assert add(mempool, GOOD, batch(2)) == [True]


def test_early_batches_make_way_for_the_one_they_wait_for() -> None:
    mempool = Mempool(Limits(author_count_max=3))
    add(mempool, EARLY, batch(1), batch(2), batch(3))
    assert add(mempool, EARLY, batch(4)) == [False]
    assert add(mempool, GOOD, batch(0)) == [True]
    assert ready(mempool) == [batch(0), batch(1), batch(2)]
    assert add(mempool, EARLY, batch(3), batch(9)) == [False, False]
    mempool.decided([batch(0), batch(1), batch(2)], never)
    assert mempool == Mempool(Limits(author_count_max=3))


def test_few_transactions_wait_for_one_place() -> None:
    mempool = Mempool()
    rivals = [batch(5, value=b"%d" % number) for number in range(ALTERNATIVES_MAX + 1)]
    assert add(mempool, EARLY, *rivals) == [True] * ALTERNATIVES_MAX + [False]
    assert len(mempool) == ALTERNATIVES_MAX


def test_few_keys_are_waited_for() -> None:
    mempool = Mempool()
    kept = add(mempool, SOON, *(action(number) for number in range(1, SOON_AUTHOR_MAX + 2)))
    assert kept == [True] * SOON_AUTHOR_MAX + [False]
    others = [batch(0, f"client-{number}") for number in range(SOON_MAX)]
    assert add(mempool, SOON, *others) == [True] * (SOON_MAX - SOON_AUTHOR_MAX) + [False] * SOON_AUTHOR_MAX


def test_what_waits_too_long_leaves() -> None:
    mempool = Mempool(Limits(waiting_ms_max=100))
    add(mempool, EARLY, batch(5))
    add(mempool, SOON, action(1))
    add(mempool, Done(), action(2))
    mempool.forget_old(100)
    assert len(mempool) == 3
    mempool.forget_old(101)
    assert len(mempool) == 1 and ready(mempool) == [action(2)]


def test_nothing_is_left_of_what_has_left() -> None:
    mempool = Mempool()
    transactions = [batch(number) for number in range(4)]
    add(mempool, EARLY, *transactions[1:])
    add(mempool, GOOD, transactions[0])
    add(mempool, SOON, action(1))
    mempool.decided(transactions, lambda _: BAD)
    assert mempool == Mempool()
    assert replace(mempool) == Mempool()
