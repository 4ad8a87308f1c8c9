"""Whom a consumer asks for a batch, and when."""

from __future__ import annotations

import pytest

from tests.kabis.clients.world import make_cluster
from tests.kabis.unit.chain import batch_of, submitted
from veristream.errors import ModelError
from veristream.kabis.consumed import Origin, decode_events
from veristream.kabis.fetching import (
    DEMOTED_MS,
    Reader,
    Standing,
    Wanted,
    WrongAnswerError,
    check_answer,
    find_forgery,
    find_index,
)
from veristream.kabis.keys import SignatureError, verify
from veristream.kabis.ledger import Ledger
from veristream.kabis.records import encode_leaf
from veristream.kabis.state import Admission


def admitted(parties: tuple[str, ...] = ("s0", "s1")) -> tuple[Admission, Ledger]:
    cluster = make_cluster()
    cluster.submit(submitted(batch_of(b"a", b"b"), parties).encode())
    (admission,) = cluster.ledger.admissions("orders", 0, 0)
    return admission, cluster.ledger


def test_one_party_is_asked_and_another_when_it_fails_or_is_late() -> None:
    wanted = Wanted(admitted()[0], ["s0", "s1", "s2"], 100)
    assert wanted.next_party(0, 50) == "s0"
    wanted.asked["s0"] = 0
    assert wanted.next_party(49, 50) is None
    assert wanted.next_party(50, 50) == "s1", "s0 is late"
    wanted.asked["s1"] = 50
    wanted.failed.add("s1")
    assert wanted.next_party(51, 50) == "s2", "s1 has failed"
    wanted.asked["s2"] = 51
    assert wanted.next_party(60, 50) is None
    assert not wanted.is_over(60, 50)
    assert wanted.due_ms(50) == 101
    assert wanted.is_over(101, 50)


def test_when_all_have_failed_the_round_begins_again_after_a_while() -> None:
    wanted = Wanted(admitted()[0], ["s0", "s1"], 100)
    for party in ("s0", "s1"):
        wanted.asked[party] = 0
        wanted.failed.add(party)
    assert wanted.is_over(1, 50)
    wanted.begin_again(100)
    assert wanted.next_party(99, 50) is None
    assert wanted.next_party(100, 50) == "s0"
    wanted.asked["s0"] = 100
    assert wanted.next_party(101, 50) is None, "s0 may answer this time"
    assert not wanted.is_over(101, 50)


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
    reader = Reader(("orders", 0), 0, 2)
    reader.window.append(
        Wanted(admission, ["s0"], 7, decode_events(batch_of(b"a", b"b").leaves, 0, origin, None))
    )
    events, freed = reader.take(1)
    assert ([event.value for event in events], freed, reader.position) == ([b"a"], 0, 1)
    events, freed = reader.take(5)
    assert ([event.value for event in events], freed, reader.position) == ([b"b"], 7, 2)
    assert reader.take(5) == ([], 0)
    assert find_index(ledger, ("orders", 0), admission.time_ms) == 0
    assert find_index(ledger, ("orders", 0), admission.time_ms + 1) is None
