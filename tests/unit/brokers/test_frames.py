"""The framings of AMQP and of nsqlookupd: what passes, of whom, and who speaks something else."""

from __future__ import annotations

import struct

import pika
import pytest
from pika import spec
from pika.frame import Body, Header, Heartbeat, Method, ProtocolHeader

from veristream.brokers.nsq.lookup_frames import Command, LookupFrames
from veristream.brokers.proxy.pieces import Direction, Framing, NotSpoken, Request
from veristream.brokers.proxy.script import Match, show_key
from veristream.brokers.rabbitmq.frames import AmqpFrames, find_name
from veristream.brokers.rabbitmq.frames import Method as Amqp


def start(name: str | None) -> bytes:
    properties = {"product": "x", **({} if name is None else {"connection_name": name}), "version": "1"}
    return bytes(Method(0, spec.Connection.StartOk(properties, response="r", locale="en")).marshal())


def take(framing: Framing, direction: Direction, data: bytes) -> list[tuple[bytes, Request | None]]:
    """Takes bytes apart that come one by one."""
    found, arrived = [], bytearray()
    for byte in data:
        arrived.append(byte)
        size = framing.size(direction, arrived)
        if size is not None and size <= len(arrived):
            assert size == len(arrived)
            found.append((bytes(arrived), framing.request(direction, arrived)))
            arrived.clear()
    assert not arrived
    return found


def test_each_frame_of_amqp_is_a_message_of_a_named_client() -> None:
    framing = AmqpFrames()
    sent = [
        bytes(ProtocolHeader().marshal()),
        start("Publisher(0)"),
        bytes(Method(1, spec.Basic.Publish(exchange="", routing_key="q")).marshal()),
        bytes(Header(1, 3, pika.BasicProperties(headers={"a": "b"})).marshal()),
        bytes(Body(1, b"abc").marshal()),
        bytes(Heartbeat().marshal()),
        bytes(Method(1, spec.Basic.Nack(delivery_tag=1, requeue=True)).marshal()),
    ]
    found = take(framing, "to broker", b"".join(sent))
    assert [data for data, _ in found] == sent
    assert [request for _, request in found] == [
        Request(Amqp.OTHER, 0, 0),
        Request(Amqp.START_OK, 0, 1, "Publisher(0)"),
        Request(Amqp.PUBLISH, 1, 2, "Publisher(0)"),
        Request(Amqp.OTHER, 1, 3, "Publisher(0)"),
        Request(Amqp.OTHER, 1, 4, "Publisher(0)"),
        Request(Amqp.OTHER, 0, 5, "Publisher(0)"),
        Request(Amqp.NACK, 1, 6, "Publisher(0)"),
    ]
    ack = bytes(Method(1, spec.Basic.Ack(delivery_tag=1)).marshal())
    assert take(framing, "to client", ack) == [(ack, Request(Amqp.ACK, 1, -1, "Publisher(0)"))]


def test_a_client_of_amqp_may_have_no_name() -> None:
    assert find_name(start(None)) == ""
    assert find_name(start("né")) == "né"
    assert find_name(b"\x0fconnection_nameS\x00") == ""


@pytest.mark.parametrize(
    "junk",
    [
        b"GET / HTTP/1.1\r\n",
        b"\x01\x00\x01\xff\xff\xff\xff",
        b"\x02\x00\x01\x00\x00\x00\x01ab",
        b"AMQX0000",
    ],
)
def test_who_does_not_speak_amqp_is_turned_away(junk: bytes) -> None:
    with pytest.raises(NotSpoken):
        AmqpFrames().size("to broker", bytearray(junk))


def sized(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def test_commands_of_nsqd_have_answers_in_their_order() -> None:
    framing = LookupFrames("Nsqd(0)")
    sent = [
        b"  V1",
        b"IDENTIFY\n" + sized(b'{"tcp_port": 1}'),
        b"REGISTER orders billing\n",
        b"PING\n",
        b"UNREGISTER orders\n",
        b"WHAT\n",
    ]
    kinds = [Command.IDENTIFY, Command.REGISTER, Command.PING, Command.UNREGISTER, Command.OTHER]
    requests = [Request(kind, 1, number, "Nsqd(0)") for number, kind in enumerate(kinds)]
    assert take(framing, "to broker", b"".join(sent)) == list(zip(sent, [None, *requests], strict=True))
    answers = [sized(b"{}"), *[sized(b"OK")] * 3, sized(b"E_INVALID x"), sized(b"more")]
    assert take(framing, "to client", b"".join(answers)) == list(
        zip(answers, [*requests, None], strict=True)
    )


@pytest.mark.parametrize(
    ("direction", "junk"),
    [
        ("to broker", b"R" * 1024),
        ("to broker", b"IDENTIFY\n\xff\xff\xff\xff"),
        ("to client", b"\xff\xff\xff\xff"),
    ],
)
def test_who_does_not_speak_to_nsqlookupd_is_turned_away(direction: Direction, junk: bytes) -> None:
    with pytest.raises(NotSpoken):
        LookupFrames().size(direction, bytearray(junk))


def test_kinds_are_named_in_words_and_are_none_of_kafka() -> None:
    assert (show_key(Amqp.PUBLISH), show_key(Command.REGISTER), show_key(0)) == (
        "PUBLISH",
        "REGISTER",
        "PRODUCE",
    )
    assert Match(key=Command.REGISTER, client="n").tell() == "a message to broker, key REGISTER, client n"
    assert min(*Amqp, *Command) >= 1 << 16
