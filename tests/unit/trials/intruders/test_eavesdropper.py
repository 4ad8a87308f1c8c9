"""What an eavesdropper reads of what passes."""

from __future__ import annotations

from veristream.brokers.proxy.pieces import PASS, Direction, Piece
from veristream.trials.intruders.attacks import Outcome
from veristream.trials.intruders.eavesdropper import Eavesdropper


def hear(ear: Eavesdropper, data: bytes, connection: int = 0, direction: Direction = "to broker") -> None:
    assert ear(Piece("kafka-1", connection, direction, 0, data)) == PASS


def test_a_payload_may_come_in_pieces() -> None:
    ear = Eavesdropper()
    hear(ear, b"..pay")
    hear(ear, b"load..")
    found = ear.take(["payload", "other"])
    assert found.outcome is Outcome.SUCCEEDED
    assert found.reason == "1 of 2 payloads are readable in 11 bytes"
    assert found.counts == {"payloads": 2, "read": 1, "bytes": 11}


def test_streams_are_not_mixed() -> None:
    ear = Eavesdropper()
    hear(ear, b"pay", connection=0)
    hear(ear, b"load", connection=1)
    hear(ear, b"load", connection=0, direction="to client")
    assert ear.take(["payload"]).outcome is Outcome.PREVENTED


def test_it_begins_anew() -> None:
    ear = Eavesdropper()
    hear(ear, b"payload")
    assert ear.take(["payload"]).counts["read"] == 1
    assert ear.take(["payload"]).counts == {"payloads": 1, "read": 0, "bytes": 0}


def test_the_session_is_the_connection_on_which_most_was_sent() -> None:
    ear = Eavesdropper()
    assert ear.session() == []
    hear(ear, b"short", connection=0)
    hear(ear, b"first", connection=1)
    hear(ear, b"second", connection=1)
    hear(ear, b"a long answer that was not sent", connection=0, direction="to client")
    assert ear.session() == [b"first", b"second"]
    assert ear.take([]).counts["bytes"] == 5 + 5 + 6 + 31
