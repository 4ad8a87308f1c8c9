"""What Kafka's messages say of themselves: bytes of real clients and brokers, and bytes that mean nothing.

`wire.json` has requests and their answers as they passed a proxy: librdkafka 2.16, the Java client and
brokers of Kafka 4.1.1, which exchanged them with transaction.version 2 and, for versions below, 0.
"""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veristream.brokers.proxy.header import FLEXIBLE, LATEST, Header, Transaction, read_answer, read_request
from veristream.brokers.proxy.kafka import Key
from veristream.brokers.proxy.pieces import KafkaFrames, Pass, Piece, Request
from veristream.brokers.proxy.script import Match, fits
from veristream.brokers.proxy.steering import Steering
from veristream.brokers.proxy.topics import read_topics

WIRE: Final[dict[str, list[str]]] = json.loads(
    (Path(__file__).parent / "wire.json").read_text(encoding="utf-8")
)
ID: Final = "b6511eadaf21496c8be979b7e0acd834"
NAMED: Final = "c522604a0f4547bc807afe5668de6c67"
ORDERS, BOTH = (("orders", 0),), (("orders", 0), ("orders", 1))


def rd(**more: object) -> tuple[Transaction, ...]:
    return (Transaction("rd-tx", 5, 2, **more),)  # type: ignore[arg-type]


def java(epoch: int, **more: object) -> tuple[Transaction, ...]:
    return (Transaction("java-tx", 6, epoch, **more),)  # type: ignore[arg-type]


TRUTH: Final[dict[str, tuple[tuple[Transaction, ...], str | None, tuple[int, ...] | None]]] = {
    "librdkafka InitProducerId 4": ((Transaction("rd-tx"),), None, (0,)),
    "librdkafka AddPartitionsToTxn 0": (rd(partitions=BOTH), None, (0, 0)),
    "librdkafka Produce 10": (rd(partitions=ORDERS), None, (0,)),
    "broker AddPartitionsToTxn 5 verifies": (
        rd(verify_only=True, partitions=(("orders", 1),)),
        None,
        (0, 0),
    ),
    "librdkafka AddOffsetsToTxn 0": (rd(), "rd-group", (0,)),
    "librdkafka TxnOffsetCommit 3": (rd(partitions=ORDERS), "rd-group", (0,)),
    "librdkafka EndTxn 1": (rd(committed=True), None, (0,)),
    "librdkafka AddPartitionsToTxn 0 too early": (rd(partitions=ORDERS), None, (51,)),
    "broker WriteTxnMarkers 1": (
        (Transaction(None, 5, 2, True, partitions=(("orders", 0), ("__consumer_offsets", 0))),),
        None,
        (0, 0),
    ),
    "Java InitProducerId 5": ((Transaction("java-tx"),), None, (0,)),
    "Java Produce 13": (java(3, partitions=((ID, 0),)), None, (0,)),
    "Java TxnOffsetCommit 5": (java(3, partitions=ORDERS), "java-group", (0,)),
    "Java EndTxn 5": (java(3, committed=True), None, (0,)),
    "broker AddPartitionsToTxn 5 adds too early": (
        java(4, verify_only=False, partitions=ORDERS),
        None,
        (0, 51),
    ),
    "Java AddPartitionsToTxn 3": (java(1, partitions=ORDERS), None, (0,)),
    "Java Produce 11": (java(1, partitions=ORDERS), None, (0,)),
    "Java AddOffsetsToTxn 4": (java(1), "java-group", (0,)),
    "Java TxnOffsetCommit 4": (java(1, partitions=ORDERS), "java-group", (0,)),
    "Java EndTxn 4": (java(1, committed=True), None, (0,)),
    "Java Metadata 13": ((), None, None),
}
GIVEN: Final = {
    "librdkafka InitProducerId 4": (5, 2),
    "Java InitProducerId 5": (6, 3),
    "Java EndTxn 5": (6, 4),
}


def read(name: str) -> tuple[Header, Header]:
    """Returns what a request says, and what its answer does."""
    framing = KafkaFrames()
    asked, said = (bytearray.fromhex(each) for each in WIRE[name])
    assert framing.size("to broker", asked) == len(asked)
    request = framing.request("to broker", asked)
    assert request is not None
    assert framing.size("to client", said) == len(said)
    assert framing.request("to client", said) is request
    header = read_request(request, bytes(asked))
    return header, read_answer(header, bytes(said))


def test_all_of_it_is_known() -> None:
    assert set(TRUTH) == set(WIRE)


@pytest.mark.parametrize("name", TRUTH)
def test_real_bytes_are_understood(name: str) -> None:
    transactions, group, errors = TRUTH[name]
    asked, said = read(name)
    sender, kind, version = name.split()[:3]
    client = {"librdkafka": "rd-client", "Java": "java-client"}.get(sender)
    assert str(asked.request.version) == version and client in (None, asked.request.client)
    assert Key(asked.request.key).name.replace("_", "").lower() == kind.lower()
    assert (asked.transactions, asked.group, asked.errors) == (transactions, group, None)
    assert (said.group, said.errors, said.given) == (group, errors, GIVEN.get(name))
    if kind == "InitProducerId":
        (only,) = said.transactions
        assert (only.transactional_id, (only.producer_id, only.epoch)) == (
            transactions[0].transactional_id,
            GIVEN[name],
        )
    else:
        assert said.transactions == transactions


@pytest.mark.parametrize(
    ("match", "names"),
    [
        (Match(key=Key.END_TXN, committed=True), {"librdkafka EndTxn 1", "Java EndTxn 5", "Java EndTxn 4"}),
        (Match(key=Key.PRODUCE, epoch=3), {"Java Produce 13"}),
        (Match(producer_id=6, epoch=4), {"broker AddPartitionsToTxn 5 adds too early"}),
        (Match(topic="orders", partition=1, verify_only=True), {"broker AddPartitionsToTxn 5 verifies"}),
        (Match(topic=ID), {"Java Produce 13"}),
        (Match(group="rd-group", key=25), {"librdkafka AddOffsetsToTxn 0"}),
        (Match(client="java-client", transactional_id="rd-tx"), set()),
        (Match(version=10), {"librdkafka Produce 10"}),
        (Match(error=0), set()),
    ],
)
def test_requests_are_matched(match: Match, names: set[str]) -> None:
    assert {name for name in WIRE if fits(match, ("b", 0, "to broker", 0), read(name)[0])} == names


@pytest.mark.parametrize(
    ("match", "count"),
    [
        (Match("to client", error=51), 2),
        (Match("to client", error=0), 17),
        (Match("to client", error=0, key=Key.END_TXN, epoch=3), 1),
        (Match("to client", error=47), 0),
        (Match(error=51), 0),
    ],
)
def test_answers_are_matched(match: Match, count: int) -> None:
    found = [name for name in WIRE if fits(match, ("b", 0, "to client", 0), read(name)[1])]
    assert len(found) == count


def test_topics_are_named_once_a_broker_has_told_their_ids() -> None:
    request = read("Java Metadata 13")[0].request
    asked, told = map(bytes.fromhex, WIRE["Java Metadata 13"])
    assert read_topics(request, told) == {NAMED: "orders"}
    assert read_topics(replace(request, version=9), told) == {}
    steering, produce = Steering(), read("Java Produce 13")[0].request
    data = bytes.fromhex(WIRE["Java Produce 13"][0].replace(ID, NAMED))
    seen: list[list[tuple[str, int]]] = []
    for pieces in (
        [Piece("b", 0, "to broker", 0, data, produce)],
        [Piece("b", 0, "to broker", 1, asked, request), Piece("b", 0, "to client", 0, told, request)],
        [Piece("b", 0, "to broker", 2, data, produce)],
    ):
        for each in pieces:
            decision = steering(each)
            assert isinstance(decision, Pass) and decision.then is not None
            decision.then()
        header = steering.passed[-1].header
        assert header is not None
        seen.append([place for one in header.transactions for place in one.partitions])
    assert seen == [[(NAMED, 0)], [], [("orders", 0)]]


def test_a_broker_may_ask_about_several_transactions() -> None:
    def text(word: bytes) -> bytes:
        return bytes([len(word) + 1]) + word

    def one(name: bytes, producer: int, epoch: int, partition: int) -> bytes:
        topics = b"\x02" + text(b"orders") + b"\x02" + struct.pack(">i", partition) + b"\0"
        return text(name) + struct.pack(">qh?", producer, epoch, True) + topics + b"\0"

    body = (
        struct.pack(">hhih", 24, 4, 9, 1)
        + b"b\0\x03"
        + one(b"t", 4000, 1, 0)
        + one(b"u", 4001, 2, 3)
        + b"\0"
    )
    data = struct.pack(">i", len(body)) + body
    header = read_request(Request(24, 4, 9, "b"), data)
    assert header.transactions == (
        Transaction("t", 4000, 1, None, True, (("orders", 0),)),
        Transaction("u", 4001, 2, None, True, (("orders", 3),)),
    )
    place = "b", 0, "to broker", 0
    assert fits(Match(transactional_id="u", producer_id=4001, partition=3), place, header)
    assert not fits(Match(transactional_id="u", partition=0), place, header), "it must be one transaction"


@pytest.mark.parametrize("name", ["librdkafka Produce 10", "Java Produce 13"])
def test_of_a_large_produce_the_beginning_is_enough(name: str) -> None:
    whole, _ = read(name)
    data = bytes.fromhex(WIRE[name][0])
    short = read_request(whole.request, data[:-12])  # the batch is cut off
    assert short.transactions == whole.transactions
    assert read_request(whole.request, data[:20]).transactions == ()


def test_what_newer_versions_say_is_not_guessed() -> None:
    data = bytes.fromhex(WIRE["Java EndTxn 5"][0])
    newer = Request(Key.END_TXN, LATEST[Key.END_TXN] + 1, 0, "java-client")
    assert read_request(newer, data) == Header(newer)
    assert read_request(Request(999, 0, 0), data) == Header(Request(999, 0, 0))
    assert set(LATEST) == set(FLEXIBLE)


REQUESTS: Final = st.builds(
    Request, st.one_of(st.sampled_from(Key), st.integers(-5, 90)), st.integers(-1, 15), st.integers(0, 9)
)


@settings(max_examples=400, deadline=None)
@given(REQUESTS, st.binary(max_size=200))
def test_any_bytes_are_read_without_a_failure(request: Request, data: bytes) -> None:
    header = read_request(request, data)
    assert header.request is request
    assert read_answer(header, data).request is request
    assert set(map(type, read_topics(Request(Key.METADATA, 10, 0), data))) <= {str}


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(sorted(WIRE)), st.integers(0, 150), st.binary(max_size=6), st.booleans())
def test_damaged_messages_are_read_without_a_failure(name: str, at: int, new: bytes, cut: bool) -> None:
    asked, said = (bytes.fromhex(each) for each in WIRE[name])
    request = read(name)[0].request
    damaged = [each[:at] + new + (b"" if cut else each[at + len(new) :]) for each in (asked, said)]
    header = read_request(request, damaged[0])
    assert read_answer(header, damaged[1]).request == request
    assert set(map(type, read_topics(request, damaged[1]))) <= {str}


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=64))
def test_a_length_that_lies_is_no_work(data: bytes) -> None:
    """Counts of billions in a few bytes end at once, not after billions of steps."""
    huge = data + b"\xff\xff\xff\xff\x0f" * 4 + b"\x7f" * 8
    for key, version in LATEST.items():
        request = Request(key, version, 0)
        assert read_answer(read_request(request, huge), huge).request is request
