"""A client of one's own: what its handler and its callbacks tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.recording.histories import read_back
from veristream.history.events import NONE, Event, Operation
from veristream.history.identity import encode_payload
from veristream.recording.nsq.clients import Node, NsqRecorder
from veristream.recording.nsq.outside import UNKNOWN, OutsideClient
from veristream.recording.recording import Recording


@dataclass
class Message:
    body: bytes
    attempts: int = 1


def record(folder: Path, work: Callable[[OutsideClient], None]) -> list[Event]:
    with Recording(folder / "h", "nsq") as recording:
        recorder = NsqRecorder(recording)
        work(OutsideClient(recorder, Node("nsqd-1", "127.0.0.1:4150"), "orders", "billing"))
        recording.finish()
    return read_back(folder / "h")[1]


def brief(event: Event) -> tuple[str, str, int, int, int]:
    return (event.operation.name, event.outcome.name, event.producer, event.number, event.attempt)


@pytest.mark.parametrize(
    ("answer", "outcome", "error"),
    [
        (b"OK", "OK", ""),
        (
            Exception(b"E_BAD_TOPIC PUB topic name is not valid"),
            "FAIL",
            "E_BAD_TOPIC PUB topic name is not valid",
        ),
        (Exception(b"E_PUB_FAILED PUB failed exiting"), "FAIL", "E_PUB_FAILED PUB failed exiting"),
        (Exception("Stream is closed"), "INDEFINITE", "Stream is closed"),
        (ConnectionResetError(), "INDEFINITE", ""),
    ],
)
def test_the_callback_ends_the_send(tmp_path: Path, answer: object, outcome: str, error: str) -> None:
    def work(client: OutsideClient) -> None:
        topic, payload, answered = client.publishing(b"body")
        assert (topic, payload) == ("orders", b"vs:0:0;body")
        answered(None, answer)

    events = record(tmp_path, work)
    assert [(each.outcome.name, each.number, each.error) for each in events] == [
        ("INVOKE", 0, ""), (outcome, 0, error),
    ]  # fmt: skip


def test_a_send_that_is_never_answered_stays_open(tmp_path: Path) -> None:
    events = record(tmp_path, lambda client: (client.publishing(b""), client.publishing(b""), None)[-1])
    assert [(each.outcome.name, each.number) for each in events] == [("INVOKE", 0), ("INVOKE", 1)]


def test_the_handler_says_whether_a_message_is_finished(tmp_path: Path) -> None:
    def work(client: OutsideClient) -> None:
        handle: Callable[[Message], bool] = client.handling(lambda message: message.attempts > 1)
        assert not handle(Message(encode_payload(3, 7)))
        assert handle(Message(encode_payload(3, 7), 2))
        assert handle(Message(b"of another program", 2))
        client.close()

    events = record(tmp_path, work)
    assert [brief(each) for each in events] == [
        ("RECEIVE", "OK", 3, 7, 1),
        ("REJECT", "INVOKE", 3, 7, NONE),
        ("REJECT", "INDEFINITE", 3, 7, NONE),
        ("RECEIVE", "OK", 3, 7, 2),
        ("ACKNOWLEDGE", "INVOKE", 3, 7, NONE),
        ("ACKNOWLEDGE", "INDEFINITE", 3, 7, NONE),
        ("RECEIVE", "OK", NONE, NONE, 2),
        ("ACKNOWLEDGE", "INVOKE", NONE, NONE, NONE),
        ("ACKNOWLEDGE", "INDEFINITE", NONE, NONE, NONE),
        ("CLOSE", "OK", NONE, NONE, NONE),
    ]
    assert {each.error for each in events if each.outcome.name == "INDEFINITE"} == {UNKNOWN}
    assert {each.group for each in events if each.operation is Operation.RECEIVE} == {0}


def test_a_handler_that_raises_gives_the_message_back(tmp_path: Path) -> None:
    def broken(message: Message) -> bool:
        raise RuntimeError("no disk")

    def work(client: OutsideClient) -> None:
        with pytest.raises(RuntimeError, match="no disk"):
            client.handling(broken)(Message(encode_payload(0, 0)))

    events = record(tmp_path, work)
    assert [each.operation.name for each in events] == ["RECEIVE", "REJECT", "REJECT"]
