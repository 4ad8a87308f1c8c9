"""Forgeries in what others have sent: in whole batches only, with correct checksums."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import pytest

from veristream.brokers.proxy.pieces import PASS, Change, Direction, Piece
from veristream.trials.intruders.attacks import Attack, Outcome
from veristream.trials.intruders.forging import Changer, checksum, forge, replay
from veristream.trials.intruders.intruder import PAYLOAD_LENGTH, forgery, judge_change
from veristream.trials.intruders.stage import make_payload

OLD, NEW = b"payload", b"forgery"


def batch(content: bytes) -> bytes:
    """A batch of records as Kafka's format has it, as far as its checksum is concerned."""
    checked = bytes(40) + content
    return struct.pack(">qiibI", 0, 9 + len(checked), -1, 2, checksum(checked)) + checked


def request(content: bytes) -> bytes:
    """What is before the batch has its own magic bytes of 2, as a request may."""
    return bytes((0, 2)) * 30 + batch(content) + b"the end"


def test_the_checksum_is_castagnolis() -> None:
    assert checksum(b"123456789") == 0xE3069283


def test_a_message_is_exchanged_and_the_checksum_is_correct() -> None:
    assert forge(request(b"<" + OLD + b">"), OLD, NEW) == request(b"<" + NEW + b">")


def test_what_is_in_no_batch_is_left_alone() -> None:
    whole = request(OLD)
    damaged = whole.replace(b"\x00\x00payload", b"\x00\x01payload")
    assert damaged != whole
    for data in (b"", OLD, b"before " + OLD + b" after", whole[: whole.index(OLD) + 3], damaged):
        assert forge(data, OLD, NEW) is None
    assert forge(whole[:-8], OLD, NEW) is None, "a part of the batch is missing"


def test_a_forgery_of_another_length_would_break_the_batch() -> None:
    with pytest.raises(ValueError, match="as long as"):
        forge(request(OLD), OLD, b"longer than it")
    assert {len(forgery(each)) for each in Attack} == {len(make_payload())} == {PAYLOAD_LENGTH}


def piece(data: bytes, direction: Direction = "to broker") -> Piece:
    return Piece("kafka-1", 0, direction, 0, data)


def test_only_one_message_is_changed_on_its_way() -> None:
    changer = Changer("payload", "forgery")
    assert changer(piece(request(b"other!!"))) == PASS
    assert changer(piece(request(OLD), "to client")) == PASS
    assert changer(piece(OLD)) == PASS, "in no batch"
    assert changer.changed == 0
    assert changer(piece(request(OLD))) == Change(request(NEW))
    assert changer.changed == 1


def test_what_came_of_a_change() -> None:
    done, failed = judge_change(1, 1, 0), judge_change(0, 0, 1)
    assert (done.outcome, failed.outcome) == (Outcome.SUCCEEDED, Outcome.PREVENTED)
    assert failed.reason == "0 of 1 message changed on the way; stored: 0 forged, 1 of the producer"
    assert failed.counts == {"sent": 1, "changed": 0, "stored": 0, "own": 1}


@contextmanager
def answering(answers: Sequence[bytes]) -> Iterator[tuple[str, list[bytes]]]:
    """A server that answers each piece in turn, and then ends the connection; yields what came."""
    came: list[bytes] = []
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                for answer in answers:
                    came.append(connection.recv(4096))
                    connection.sendall(answer)
                came.append(connection.recv(4096))

        thread = threading.Thread(target=serve)
        thread.start()
        host, port = server.getsockname()
        try:
            yield f"{host}:{port}", came
        finally:
            thread.join()


def test_a_session_is_replayed_with_another_message() -> None:
    with answering((b"one", b"two")) as (address, came):
        session = (b"hello", request(OLD))
        assert replay(address, session, "payload", "forgery") == ""
    assert came == [b"hello", request(NEW), b""]


def test_the_words_of_a_refusal_are_the_brokers() -> None:
    answer = b"\x00\x00:\x00\x20Authentication failed during authentication\x00\x00"
    with answering((b"fine", answer)) as (address, came):
        said = replay(address, (b"a", b"b", b"c"), "payload", "forgery")
    assert said == "Authentication failed during authentication"
    assert came == [b"a", b"b", b""], "it stops once it is refused"


def test_a_broker_may_refuse_without_words() -> None:
    with answering((b"fine",)) as (address, _):
        said = replay(address, (b"a", b"b", b"c"), "payload", "forgery")
    assert said == "the broker ends the connection after 2 of 3 pieces"


def test_a_broker_that_does_not_answer_is_not_one_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veristream.trials.intruders.forging.ANSWER_S", 0.05)
    with answering((b"",)) as (address, _):
        said = replay(address, (b"a", b"b"), "payload", "forgery")
    assert said == "the broker does not answer piece 1 of 2"
