"""Handing parcels to Kafka's client: all events once, in their order, whatever room it has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from hypothesis import given
from hypothesis import strategies as st

from veristream.kabis.client.kafka.handing import hand_over, hand_over_last
from veristream.kabis.client.kafka.parcels import SMALL_BYTES, TOGETHER, PlainParcel
from veristream.kabis.protocol.records import Record


@dataclass
class Client:
    """Takes messages as Kafka's client does, as long as it has room."""

    room: int
    failure: int = KafkaError._QUEUE_FULL
    taken: list[tuple[bytes | None, bytes | None]] = field(default_factory=list)
    more: list[dict[str, Any]] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)

    def produce(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int, **more: Any
    ) -> None:
        assert (topic, partition) == ("t", 3)
        if len(self.taken) >= self.room:
            raise BufferError if self.failure == KafkaError._QUEUE_FULL else KafkaException("gone")
        if more.pop("on_delivery", None) is not None:
            self.asked.append(len(self.taken))
        self.taken.append((key, value))
        self.more.append(more)

    def produce_batch(self, topic: str, messages: list[dict[str, Any]], partition: int) -> int:
        for number, message in enumerate(messages):
            if len(self.taken) >= self.room:
                for left in messages[number:]:
                    left["_error"] = KafkaError(self.failure)
                return number
            self.produce(
                topic, message["value"], message.get("key"), partition, on_delivery=message.get("callback")
            )
        return len(messages)


def make_parcel(records: list[Record], *, each: bool = False) -> PlainParcel:
    parcel = PlainParcel("t", 3)
    parcel.each, parcel.report = each, report
    for record in records:
        parcel.take(record)
    return parcel


def report(error: KafkaError | None, message: Message) -> None:
    """Nothing is delivered here."""


def client_of(client: Client) -> Producer:
    return cast(Producer, client)


RECORDS = st.builds(
    Record,
    st.just("t"),
    st.sampled_from([None, b"", b"a", b"b" * (SMALL_BYTES + 1)]),
    st.sampled_from([None, b"", b"k"]),
    st.sampled_from([(), (("h", b"1"),)]),
    st.sampled_from([None, 5]),
)


@given(st.lists(RECORDS, min_size=1, max_size=20), st.booleans(), st.data())
def test_all_events_are_handed_over_once_and_in_order(
    records: list[Record], each: bool, data: st.DataObject
) -> None:
    """However pushes, the clock and the room of the client fall; the first and the last are asked about."""
    client = Client(0)
    parcel = make_parcel([], each=each)
    waiting = list(records)
    while waiting:
        client.room += data.draw(st.integers(0, 5))
        try:
            if data.draw(st.booleans()) and parcel.contents:
                hand_over(client_of(client), parcel, len(parcel.contents) - 1)
            if len(parcel.contents) >= parcel.full or data.draw(st.booleans()):
                hand_over(client_of(client), parcel, len(parcel.contents))
        except BufferError:
            continue
        parcel.take(waiting.pop(0))
        assert parcel.sent < len(parcel.contents), "the newest event is held back"
    while not parcel.ended:
        try:
            hand_over_last(client_of(client), parcel)
        except BufferError:
            assert not parcel.ended
            client.room += data.draw(st.integers(1, 5))
    assert client.taken == [(record.key, record.value) for record in records]
    last = len(records) - 1
    assert client.asked == (list(range(len(records))) if each else sorted({0, last}))
    assert [more.get("headers", []) for more in client.more] == [list(each.headers) for each in records]
    assert [more.get("timestamp") for more in client.more] == [each.timestamp_ms for each in records]


def test_a_client_that_gave_up_says_so() -> None:
    client = Client(2, failure=KafkaError._FATAL)
    parcel = make_parcel([Record("t", b"%d" % number) for number in range(5)])
    with pytest.raises(KafkaException):
        hand_over(client_of(client), parcel, 4)
    assert parcel.sent == 2
    with pytest.raises(KafkaException):
        hand_over_last(client_of(client), parcel)
    assert client.taken == [(None, b"0"), (None, b"1")]


def test_many_small_events_wait_for_each_other_and_others_do_not() -> None:
    parcel = make_parcel([Record("t", b"x")] * 5)
    assert parcel.full == TOGETHER
    client = Client(1000)
    hand_over(client_of(client), parcel, 5)
    assert parcel.full == 5 + TOGETHER
    parcel.take(Record("t", b"x", headers=(("h", None),)))
    assert parcel.full == 0
    hand_over(client_of(client), parcel, 5)
    assert parcel.full == 0 and parcel.sent == 5, "it is still to go"
    hand_over(client_of(client), parcel, 6)
    assert parcel.full == 6 + TOGETHER
