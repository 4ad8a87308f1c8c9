"""The TCP protocol of nsqd: frames, errors, heartbeats, cut connections."""

from __future__ import annotations

import struct
import time

import pytest

from tests.unit.brokers.fake_nsqd import Client, fake_nsqd
from veristream.brokers.nsq import protocol
from veristream.brokers.nsq.connection import NO_HEARTBEAT, Connection, Refused
from veristream.brokers.nsq.protocol import BadFrame, FrameBuffer, Message, Refusal, Response

ID = b"0123456789abcdef"


def frame(kind: int, data: bytes) -> bytes:
    return struct.pack(">II", len(data) + 4, kind) + data


STREAM = (
    frame(0, b"OK")
    + frame(2, struct.pack(">qH16s", 9, 3, ID) + b"body")
    + frame(1, b"E_FIN_FAILED FIN 0123456789abcdef failed ID not in flight")
    + frame(1, b"E_INVALID")
    + frame(0, b"")
)
FRAMES = [
    Response(b"OK"),
    Message(ID, 3, 9, b"body"),
    Refusal("E_FIN_FAILED", "FIN 0123456789abcdef failed ID not in flight"),
    Refusal("E_INVALID", ""),
    Response(b""),
]


@pytest.mark.parametrize("step", [1, 7, len(STREAM)])
def test_frames_are_found_however_they_arrive(step: int) -> None:
    buffer, found = FrameBuffer(), []
    for at in range(0, len(STREAM), step):
        buffer.feed(STREAM[at : at + step])
        while (one := buffer.next()) is not None:
            found.append(one)
    assert found == FRAMES
    assert buffer.is_empty


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"HTTP/1.1 400 Bad", "a frame of 1213486160 bytes"),
        (struct.pack(">II", 3, 0), "a frame of 3 bytes"),
        (frame(3, b"x"), "a frame of kind 3 with 1 bytes"),
        (frame(2, b"too short"), "a frame of kind 2 with 9 bytes"),
    ],
)
def test_what_is_no_frame_is_an_error(data: bytes, what: str) -> None:
    buffer = FrameBuffer()
    buffer.feed(data)
    with pytest.raises(BadFrame, match=what):
        buffer.next()


def test_commands_are_written_as_nsqd_reads_them() -> None:
    assert protocol.publish("t", b"abc") == b"PUB t\n\0\0\0\3abc"
    many = protocol.publish_many("t", [b"a", b"bc"])
    assert many == b"MPUB t\n\0\0\0\x0f" + b"\0\0\0\2" + b"\0\0\0\1a" + b"\0\0\0\2bc"
    assert protocol.subscribe("t", "c") == b"SUB t c\n"
    assert protocol.ready(5) == b"RDY 5\n"
    assert protocol.finish(ID) == b"FIN 0123456789abcdef\n"
    assert protocol.requeue(ID, 30) == b"REQ 0123456789abcdef 30\n"
    assert protocol.touch(protocol.FENCE) == b"TOUCH veristream-fence\n"
    assert len(protocol.FENCE) == protocol.ID_BYTES


def test_what_nsqd_says_of_itself_is_kept() -> None:
    with fake_nsqd() as nsqd:
        connection = Connection(nsqd.address, NO_HEARTBEAT)
        connection.publish("t", b"abc")
        connection.close()
    assert connection.features["max_rdy_count"] == 2500
    assert nsqd.seen == [
        ("IDENTIFY", b'{"feature_negotiation": true, "heartbeat_interval": -1}'),
        ("PUB t", b"abc"),
    ]


def test_a_server_that_is_no_nsqd_is_refused() -> None:
    def answer(client: Client, line: str, body: bytes) -> bool:
        client.respond(b"OK")
        return True

    with fake_nsqd(answer) as nsqd, pytest.raises(BadFrame, match="no features: b'OK'"):
        Connection(nsqd.address)


def test_a_refusal_is_raised_with_its_code() -> None:
    def answer(client: Client, line: str, body: bytes) -> bool:
        if line.startswith("PUB"):
            client.refuse('E_BAD_TOPIC PUB topic name "a b" is not valid')
            return True
        return False

    with fake_nsqd(answer) as nsqd:
        connection = Connection(nsqd.address)
        with pytest.raises(Refused, match="E_BAD_TOPIC PUB topic name") as caught:
            connection.publish("a", b"x")
        assert caught.value.code == "E_BAD_TOPIC"
        connection.close()


def test_heartbeats_are_answered_and_messages_kept_while_waiting_for_an_answer() -> None:
    def answer(client: Client, line: str, body: bytes) -> bool:
        if line.startswith("SUB"):
            client.respond(b"_heartbeat_")
            client.deliver(ID, b"early")
            client.respond(b"OK")
            return True
        return False

    with fake_nsqd(answer) as nsqd:
        connection = Connection(nsqd.address)
        connection.subscribe("t", "c")
        assert connection.receive(0) == Message(ID, 1, 7, b"early")
        assert connection.receive(0) is None
        connection.close()
    assert nsqd.lines == ["SUB t c", "NOP"]


def test_no_answer_is_a_timeout() -> None:
    def answer(client: Client, line: str, body: bytes) -> bool:
        return line.startswith("PUB")

    with fake_nsqd(answer) as nsqd:
        connection = Connection(nsqd.address)
        with pytest.raises(TimeoutError, match=r"did not answer within 0\.3 s"):
            connection.call(protocol.publish("t", b"x"), 0.3)
        connection.close()


def test_a_cut_connection_is_an_error() -> None:
    def answer(client: Client, line: str, body: bytes) -> bool:
        if line.startswith("PUB"):
            client.cut()
        return line.startswith("PUB")

    with fake_nsqd(answer) as nsqd:
        connection = Connection(nsqd.address)
        with pytest.raises(ConnectionError):
            connection.publish("t", b"x")
        connection.close()


def test_nobody_listens() -> None:
    with fake_nsqd() as nsqd:
        address = nsqd.address
    with pytest.raises(ConnectionRefusedError):
        Connection(address)


def test_it_knows_since_when_something_may_have_waited() -> None:
    """What arrived while nobody looked may be as old as the last look."""

    def answer(client: Client, line: str, body: bytes) -> bool:
        if line == "RDY 1":
            client.deliver(ID, b"one")
            client.deliver(ID, b"two")
        return line.startswith("RDY")

    with fake_nsqd(answer) as nsqd:
        connection = Connection(nsqd.address)
        assert connection.receive(0.0) is None
        looked_ns = time.monotonic_ns()
        connection.send(protocol.ready(1))
        time.sleep(0.2)
        assert connection.receive(5) is not None
        assert connection.since_ns <= looked_ns
        since_ns = connection.since_ns
        assert connection.receive(5) is not None
        assert connection.since_ns == since_ns  # it came with the first one
        connection.close()
