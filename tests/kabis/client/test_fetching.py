"""Whom a consumer asks for a batch, and when."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.kabis.chain import batch_of, submitted
from tests.kabis.client.world import make_cluster
from tests.kabis.ledger.changing import FOUNDING, Changing, member, replaced
from veristream.errors import ModelError
from veristream.kabis.client.consumed import Origin, decode_events
from veristream.kabis.client.consumer.core import ConsumerCore
from veristream.kabis.client.consumer.outputs import Fetch
from veristream.kabis.client.consumer.validated_reading import (
    BUSY_FACTOR,
    SLOW_MS_MIN,
    Patience,
    PendingBatch,
    ValidatedReader,
    find_index,
)
from veristream.kabis.client.fetching import (
    DEMOTED_MS,
    Standing,
    WrongAnswerError,
    check_answer,
    find_forgery,
)
from veristream.kabis.client.options import ConsumerOptions
from veristream.kabis.ledger.follower import Follower
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.state import Admission
from veristream.kabis.protocol.keys import SignatureError, verify
from veristream.kabis.protocol.records import encode_leaf


def admitted(parties: tuple[str, ...] = ("s0", "s1")) -> tuple[Admission, Ledger]:
    cluster = make_cluster()
    cluster.submit(submitted(batch_of(b"a", b"b"), parties).encode())
    (admission,) = cluster.ledger.admissions("orders", 0, 0)
    return admission, cluster.ledger


def test_one_party_is_asked_and_another_when_it_fails_or_is_late() -> None:
    wanted = PendingBatch(admitted()[0], ["s0", "s1", "s2"], 100)
    patience = Patience(50)
    assert wanted.next_party(0, patience) == "s0"
    wanted.asked["s0"] = 0
    assert wanted.next_party(49, patience) is None
    assert wanted.next_party(50, patience) == "s1", "s0 is late"
    wanted.asked["s1"] = 50
    wanted.failed.add("s1")
    assert wanted.next_party(51, patience) == "s2", "s1 has failed"
    wanted.asked["s2"] = 51
    assert wanted.next_party(60, patience) is None
    assert not wanted.is_over(60, patience)
    assert wanted.due_ms(patience) == 101
    assert wanted.is_over(101, patience)


def test_a_party_that_answers_other_questions_is_busy_and_not_late_up_to_a_limit() -> None:
    wanted = PendingBatch(admitted()[0], ["s0", "s1"], 100)
    patience = Patience(50)
    patience.hear("s0", 0)
    wanted.asked["s0"] = 10
    assert wanted.due_ms(patience) == 60, "what it said before the question wins it nothing"
    for now_ms in range(20, 10 + BUSY_FACTOR * 50, 40):
        patience.hear("s0", now_ms)
        patience.hear("s1", now_ms + 1000)
        assert wanted.next_party(now_ms + 29, patience) is None
    assert wanted.next_party(10 + BUSY_FACTOR * 50, patience) == "s1"


def test_a_party_that_is_much_slower_than_another_is_late_sooner() -> None:
    wanted = PendingBatch(admitted()[0], ["s0", "s1"], 100)
    patience = Patience(500)
    assert not patience.hear("s0", 450, 0), "nothing is known of the others"
    assert not patience.hear("s1", 465, 460)
    assert patience.hear("s0", 950, 500), "it has answered in time, and far later than s1"
    assert (patience.limit_ms("s0"), patience.limit_ms("s1")) == (SLOW_MS_MIN, 500)
    wanted.asked["s0"] = 1000
    assert wanted.next_party(1000 + SLOW_MS_MIN - 1, patience) is None
    assert wanted.next_party(1000 + SLOW_MS_MIN, patience) == "s1"
    for number in range(20):
        patience.hear("s1", 2000 + 60 * number, 1940 + 60 * number)
    assert patience.limit_ms("s0") > 400, "if all are slow, nobody is"


class Drip:
    """Two parties over simulated time: one answers at once, the other each request just before its end."""

    def __init__(self, batch_count: int) -> None:
        cluster = make_cluster()
        self.batches = [batch_of(b"a")]
        for number in range(1, batch_count):
            self.batches.append(batch_of(b"a", sequence=number, previous=self.batches[-1].digest()))
        for batch in self.batches:
            cluster.submit(submitted(batch).encode())
        follower = Follower(cluster.genesis)
        for certified in cluster.blocks:
            follower.follow(certified, 0)
        self.consumer = ConsumerCore(follower, None, ConsumerOptions(prefetch_batches=4))
        self.data = {batch.digest(): batch.encode() for batch in self.batches}

    def run(self, slow: str, delay_ms: int) -> int:
        """Returns how long it takes to read everything, if the slow party answers that late."""
        consumer, now_ms, taken = self.consumer, 0, 0
        consumer.subscribe(["orders"], 0)
        answers: list[tuple[int, Fetch]] = []

        def note(outputs: list[Any]) -> None:
            for each in outputs:
                if isinstance(each, Fetch):
                    answers.append((now_ms + (delay_ms if each.party == slow else 2), each))

        note(consumer.start(0))
        while taken < len(self.batches):
            now_ms += 1
            for when, fetch in [each for each in answers if each[0] <= now_ms]:
                answers.remove((when, fetch))
                note(consumer.fetched(fetch, self.data[fetch.digest], now_ms))
            note(consumer.tick(now_ms))
            taken += len(consumer.take(100))
            note(consumer.tick(now_ms))
        return now_ms


def test_a_party_that_drips_does_not_set_the_pace() -> None:
    undisturbed = Drip(60).run("nobody", 0)
    disturbed = Drip(60).run("s0", 490)
    assert disturbed < undisturbed + 1500, (undisturbed, disturbed)


@pytest.mark.parametrize("good", [True, False])
def test_only_a_good_answer_wins_a_party_time_for_the_others(good: bool) -> None:
    """Of three batches two are asked of one party first; it gives one of them just in time, or junk."""
    cluster = make_cluster()
    batches = [batch_of(b"a")]
    for number in (1, 2):
        batches.append(batch_of(b"a", sequence=number, previous=batches[-1].digest()))
    for batch in batches:
        cluster.submit(submitted(batch).encode())
    follower = Follower(cluster.genesis)
    for certified in cluster.blocks:
        follower.follow(certified, 0)
    consumer = ConsumerCore(follower, None, ConsumerOptions(fetch_timeout_ms=50))
    consumer.subscribe(["orders"], 0)
    asked = [output for output in consumer.start(0) if isinstance(output, Fetch)]
    assert len(asked) == 3
    (party, _count), *_ = Counter(fetch.party for fetch in asked).most_common(1)
    first, second, *_ = (fetch for fetch in asked if fetch.party == party)
    answer = next(batch.encode() for batch in batches if batch.digest() == first.digest)
    consumer.fetched(first, answer if good else b"junk", 40)
    late = [output.digest for output in consumer.tick(60) if isinstance(output, Fetch)]
    assert (second.digest in late) is not good
    if good:
        assert second.digest in [each.digest for each in consumer.tick(90) if isinstance(each, Fetch)]


def test_when_all_have_failed_the_round_begins_again_after_a_while() -> None:
    wanted = PendingBatch(admitted()[0], ["s0", "s1"], 100)
    patience = Patience(50)
    for party in ("s0", "s1"):
        wanted.asked[party] = 0
        wanted.failed.add(party)
    assert wanted.is_over(1, patience)
    wanted.begin_again(100, ["s0", "s2"])
    assert wanted.next_party(99, patience) is None
    assert wanted.next_party(100, patience) == "s0"
    wanted.asked["s0"] = 100
    assert wanted.next_party(101, patience) is None, "s0 may answer this time"
    assert not wanted.is_over(101, patience)


def test_former_parties_are_asked_last_although_they_vouched() -> None:
    chain = Changing()
    chain.set_members(replaced(FOUNDING, "s1", member("s4")), 3)
    chain.grow(3)
    standing = Standing()
    parties = standing.meet(chain.ledger)
    assert parties == ["s0", "s4", "s2", "s1"]
    admission, _ = admitted(("s1", "s2"))
    assert standing.order(admission, parties, 0) == ["s2", "s0", "s4", "s1"]


def test_those_that_vouched_are_asked_first_and_those_that_failed_us_last() -> None:
    admission, _ = admitted(("s1", "s2"))
    standing = Standing()
    order = standing.order(admission, ["s0", "s1", "s2"], 0)
    assert set(order[:2]) == {"s1", "s2"} and order[2] == "s0"
    standing.suspect(order[0], admission.digest, "it lied", 0)
    assert standing.order(admission, ["s0", "s1", "s2"], 1) == [order[1], "s0", order[0]]
    assert standing.order(admission, ["s0", "s1", "s2"], DEMOTED_MS + 1) == order
    assert standing.counts == {order[0]: 1}
    assert [(each.party, each.why) for each in standing.suspicions] == [(order[0], "it lied")]


def test_the_nearest_is_asked_first_while_it_behaves() -> None:
    admission, _ = admitted(("s1", "s2"))
    parties = ["s0", "s1", "s2"]
    others = Standing().order(admission, parties, 0)[:2]
    standing = Standing(nearest="s0")
    assert standing.order(admission, parties, 0) == ["s0", *others]
    standing.suspect("s0", admission.digest, "it lied", 0)
    assert standing.order(admission, parties, 1) == [*others, "s0"]
    assert standing.order(admission, parties, DEMOTED_MS + 1) == ["s0", *others]


def test_an_answer_is_held_against_the_admitted_header() -> None:
    admission, _ = admitted()
    good = batch_of(b"a", b"b").encode()
    assert check_answer(admission, good).leaves == batch_of(b"a", b"b").leaves
    others = [batch_of(b"a", b"c"), batch_of(b"a", b"b", partition=1), batch_of(b"a", b"b", sequence=1)]
    for other in [*(batch.encode() for batch in others), b"", good[:-1], good[:-1] + b"x", good + b"x"]:
        with pytest.raises(WrongAnswerError):
            check_answer(admission, other)


def test_a_batch_that_its_producer_never_signed_stops_the_partition() -> None:
    admission, ledger = admitted()

    def reject(public: bytes, message: bytes, signature: bytes) -> None:
        raise SignatureError("not signed")

    assert find_forgery(admission, ledger, verify) is None
    problem = find_forgery(admission, ledger, reject)
    assert isinstance(problem, ModelError)
    assert "orders-0" in problem.message and "alice never signed" in problem.message


def test_a_leaf_that_is_no_event_is_a_gap() -> None:
    origin = Origin("orders", 0, "alice", 1, 1, bytes(32))
    leaves = [encode_leaf(None, b"a"), b"junk", encode_leaf(b"k", b"b")]
    events = decode_events(leaves, 10, origin, None)
    assert [(event.index, event.value) for event in events] == [(10, b"a"), (12, b"b")]
    assert events[0].topic == "orders" and events[0].validated


def test_a_reader_takes_parts_of_batches_and_ends_where_it_should() -> None:
    admission, ledger = admitted()
    origin = Origin("orders", 0, "alice", 3, 1, admission.digest)
    reader = ValidatedReader(("orders", 0), 0, 2)
    reader.window.append(
        PendingBatch(admission, ["s0"], 7, decode_events(batch_of(b"a", b"b").leaves, 0, origin, None))
    )
    events, freed = reader.take(1)
    assert ([event.value for event in events], freed, reader.position) == ([b"a"], 0, 1)
    events, freed = reader.take(5)
    assert ([event.value for event in events], freed, reader.position) == ([b"b"], 7, 2)
    assert reader.take(5) == ([], 0)
    assert find_index(ledger, ("orders", 0), admission.time_ms) == 0
    assert find_index(ledger, ("orders", 0), admission.time_ms + 1) is None
