"""Scripts of a proxy, executed on connections to a broker that answers every request."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field

import pytest

from tests.unit.brokers.test_proxy import Echo, Responder, answer, ask, is_closed, is_silent, receive
from veristream.brokers.proxy.kafka import Key
from veristream.brokers.proxy.network import ProxyNetwork
from veristream.brokers.proxy.pieces import KafkaFrames
from veristream.brokers.proxy.script import (
    AwaitHeld,
    AwaitPassed,
    Match,
    Release,
    Rule,
    Script,
    read_script,
    write_script,
)
from veristream.brokers.proxy.steering import Steering, WaitedTooLong
from veristream.errors import ModelError

PATIENCE_S = 10.0
PRODUCE, METADATA = Match(key=Key.PRODUCE), Match(key=Key.METADATA)


@dataclass
class Notes:
    """Takes notes of what a proxy did."""

    begun: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    ended: dict[int, dict[str, str]] = field(default_factory=dict)

    def begin_incident(self, kind: str, target: str, details: object = None) -> int:
        assert isinstance(details, dict)
        self.begun.append((kind, target, details))
        return len(self.begun) - 1

    def end_incident(self, number: int, details: object = None) -> None:
        assert number not in self.ended
        self.ended[number] = details if isinstance(details, dict) else {}


@pytest.fixture
def echo() -> Iterator[Echo]:
    with Echo() as server:
        server.RequestHandlerClass = Responder
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def network(echo: Echo) -> Iterator[ProxyNetwork]:
    with ProxyNetwork({"b": echo.address}, KafkaFrames) as network:
        yield network


@pytest.fixture
def steering(network: ProxyNetwork, notes: Notes) -> Steering:
    network.decide = steering = Steering(notes)
    return steering


@pytest.fixture
def client(network: ProxyNetwork, steering: Steering) -> Iterator[socket.socket]:
    host, _, port = network.address("b").rpartition(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as client:
        yield client


def end_txn(correlation: int, name: bytes, committed: bool, epoch: int = 3) -> bytes:
    """EndTxn 1, as librdkafka writes it."""
    body = struct.pack(">hhih", Key.END_TXN, 1, correlation, 2) + b"me"
    body += struct.pack(">h", len(name)) + name + struct.pack(">qh?", 4000, epoch, committed)
    return struct.pack(">i", len(body)) + body


def test_a_script_holds_until_it_is_told_and_waits_for_what_passes(
    client: socket.socket, steering: Steering, notes: Notes, echo: Echo
) -> None:
    late = Rule("late", "hold", PRODUCE)
    steering.perform(late)
    client.sendall(ask(Key.METADATA, 1) + ask(Key.PRODUCE, 2) + ask(Key.METADATA, 3))
    assert steering.wait_held("late", PATIENCE_S).number == 1
    assert steering.held() == ("late",)
    assert receive(client, 8) == answer(1)
    assert is_silent(client)
    assert bytes(echo.came) == ask(Key.METADATA, 1)
    steering.release("late")
    steering.run(Script((AwaitPassed(METADATA, PATIENCE_S, nth=2),)))
    steering.wait_passed(Match("to client", key=Key.METADATA), PATIENCE_S, nth=2)
    assert receive(client, 16) == answer(2) + answer(3)
    assert steering.held() == ()
    did = [(each.did, each.number) for each in steering.log if each.direction == "to broker"]
    assert did == [("passed", 0), ("held", 1), ("released", 1), ("passed", 1), ("passed", 2)]
    [(kind, target, details)] = notes.begun
    assert (kind, target, details["rule"], details["request"]) == ("hold PRODUCE", "b", "late", "PRODUCE 3")
    assert notes.ended == {0: {"released": "when told"}}


def test_a_hold_ends_when_another_message_has_passed(
    network: ProxyNetwork, client: socket.socket, steering: Steering, notes: Notes, echo: Echo
) -> None:
    aborted = Match("to client", key=Key.END_TXN, transactional_id="t", committed=False)
    steering.perform(Rule("late", "hold", PRODUCE, until=aborted))
    client.sendall(ask(Key.PRODUCE, 1))
    steering.perform(AwaitHeld("late", PATIENCE_S))
    host, _, port = network.address("b").rpartition(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as other:
        others = [end_txn(1, b"u", False), end_txn(2, b"t", True), end_txn(3, b"t", False)]
        other.sendall(others[0] + others[1])
        assert receive(other, 16) == answer(1) + answer(2)
        assert steering.held() == ("late",)
        other.sendall(others[2])
        assert receive(other, 8) == answer(3)
        assert receive(client, 8) == answer(1)
    assert bytes(echo.came) == b"".join(others) + ask(Key.PRODUCE, 1)
    assert "transactional id t" in notes.ended[0]["released"]


def test_the_nth_is_dropped_delayed_or_cut(
    client: socket.socket, steering: Steering, notes: Notes, echo: Echo
) -> None:
    steering.perform(Rule("lost", "drop", PRODUCE, nth=2))
    steering.perform(Rule("slow", "delay", PRODUCE, nth=3, seconds=0.1))
    steering.perform(Rule("gone", "cut after", PRODUCE, nth=4))
    frames = [ask(Key.PRODUCE, number) for number in range(5)]
    client.sendall(frames[0] + frames[1] + frames[2])
    assert receive(client, 16) == answer(0) + answer(2)
    client.sendall(frames[3] + frames[4])
    assert is_closed(client)
    assert echo.ended.wait(PATIENCE_S)
    assert bytes(echo.came) == frames[0] + frames[2] + frames[3]
    assert [(kind, details["rule"]) for kind, _, details in notes.begun] == [
        ("drop PRODUCE", "lost"),
        ("delay PRODUCE", "slow"),
        ("cut after PRODUCE", "gone"),
    ]
    assert list(notes.ended) == [1]  # the delay
    assert [steering.acted(name) for name in ("lost", "slow", "gone")] == [1, 1, 1]


def test_an_answer_is_cut_off(client: socket.socket, steering: Steering, echo: Echo) -> None:
    steering.perform(Rule("unheard", "cut", Match("to client", key=Key.PRODUCE, client="me")))
    client.sendall(ask(Key.PRODUCE, 1))
    assert is_closed(client)
    assert bytes(echo.came) == ask(Key.PRODUCE, 1)


def test_what_does_not_come_is_named_with_what_came(client: socket.socket, steering: Steering) -> None:
    client.sendall(ask(Key.METADATA, 1))
    assert receive(client, 8) == answer(1)
    steering.perform(Rule("late", "hold", PRODUCE))
    awaited = Match(key=Key.END_TXN, transactional_id="t", committed=True)
    threading.Timer(0.05, lambda: client.sendall(ask(Key.FETCH, 2))).start()
    with pytest.raises(WaitedTooLong) as failure:
        steering.wait_passed(awaited, 0.5)
    assert "waited 0.5 s in vain for a message to broker" in failure.value.message
    assert "key END_TXN, transactional id t, committed True; meanwhile: passed" in failure.value.message
    assert [each.direction for each in failure.value.meanwhile] == ["to broker", "to client"]
    assert "FETCH" in failure.value.message and "METADATA" not in failure.value.message
    with pytest.raises(WaitedTooLong, match=r"a message that `late` holds .*; meanwhile: nothing"):
        steering.wait_held("late", 0.01)


def test_the_end_lets_everything_go(client: socket.socket, steering: Steering, notes: Notes) -> None:
    steering.perform(Rule("late", "hold", PRODUCE, times=None))
    client.sendall(ask(Key.PRODUCE, 1) + ask(Key.PRODUCE, 2))
    steering.wait_held("late", PATIENCE_S)
    steering.end()
    assert receive(client, 16) == answer(1) + answer(2)
    assert notes.ended == {0: {"released": "at the end"}}
    with pytest.raises(ModelError, match="there is no rule `latr`"):
        steering.release("latr")
    with pytest.raises(ModelError, match="there is a rule `late` before"):
        steering.perform(Rule("late", "drop", PRODUCE))
    steering.forget()
    assert steering.log == ()
    steering.perform(Rule("late", "drop", PRODUCE))
    client.sendall(ask(Key.PRODUCE, 3) + ask(Key.METADATA, 4))
    assert receive(client, 8) == answer(4)


def test_other_protocols_are_told_apart_by_place(echo: Echo) -> None:
    echo.RequestHandlerClass = Responder.__mro__[1]  # an echo
    with ProxyNetwork({"b": echo.address}) as network:
        network.decide = steering = Steering()
        steering.perform(Rule("lost", "drop", Match("to client", node="b", connection=1, number=0)))
        steering.perform(Rule("never", "drop", Match(None, client="me")))
        host, _, port = network.address("b").rpartition(":")
        with closing(socket.create_connection((host, int(port)), PATIENCE_S)) as first:
            first.sendall(b"a")
            assert receive(first, 1) == b"a"
            with closing(socket.create_connection((host, int(port)), PATIENCE_S)) as second:
                second.sendall(b"b")
                assert is_silent(second)
                second.sendall(b"c")
                assert receive(second, 1) == b"c"
        assert [each.did for each in steering.log].count("dropped") == 1


SCRIPT = Script(
    (
        Rule("late", "hold", Match(key=Key.PRODUCE, client="p", epoch=1), until=Match(None, error=47)),
        Rule("slow", "delay", Match("to client", node="b", connection=3, number=0), 2, None, 0.5),
        AwaitHeld("late", 5.0),
        AwaitPassed(Match(key=10, topic="t", partition=0, committed=False), nth=3),
        Release("late"),
    )
)


def test_a_script_is_written_and_read_back() -> None:
    assert read_script(write_script(SCRIPT)) == SCRIPT
    assert '"key": "PRODUCE"' in write_script(SCRIPT)


DROP = '{"step": "rule", "name": "x", "act": "drop", "match": {}}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the script is not JSON"),
        ("[]", "not an object with a list `steps`"),
        ('{"steps": [{"step": "hold"}]}', "`steps.0` is no step"),
        ('{"steps": [{"step": "release"}]}', "`steps.0` lacks a field"),
        ('{"steps": [{"step": "release", "name": 1}]}', "`steps.0.name` is 1"),
        ('{"steps": [{"step": "release", "name": "x"}]}', "no rule `x` holds anything"),
        ('{"steps": [{"step": "rule", "name": "x", "act": "hold", "match": 1}]}', "`steps.0.match` is not"),
        (
            '{"steps": [{"step": "rule", "name": "x", "act": "hold", "match": {"epok": 1}}]}',
            "unknown field `epok`",
        ),
        (
            '{"steps": [{"step": "rule", "name": "x", "act": "hold", "match": {"key": "PRODUSE"}}]}',
            "`steps.0.match.key` is 'PRODUSE'",
        ),
        (
            '{"steps": [{"step": "rule", "name": "x", "act": "hold", "match": {"epoch": true}}]}',
            "`steps.0.match.epoch` is True",
        ),
        (
            '{"steps": [{"step": "rule", "name": "x", "act": "hold", "match": {"direction": "up"}}]}',
            "`steps.0.match.direction` is 'up'",
        ),
        ('{"steps": [{"step": "rule", "name": "x", "act": "hald", "match": {}}]}', "unknown act `hald`"),
        ('{"steps": [{"step": "rule", "name": "x", "act": "delay", "match": {}}]}', "`delay` with 0.0 sec"),
        (
            '{"steps": [{"step": "rule", "name": "x", "act": "drop", "match": {}, "until": {}}]}',
            "`drop` with `until`",
        ),
        ('{"steps": [{"step": "rule", "name": "x", "act": "drop", "match": {}, "nth": 0}]}', "`nth` is 0"),
        ('{"steps": [{"step": "await passed", "match": {}, "nth": 0}]}', "`nth` is 0"),
        (f'{{"steps": [{DROP}, {DROP}]}}', "there is a rule `x` before"),
    ],
)
def test_a_script_that_cannot_be_meant_is_refused(text: str, message: str) -> None:
    with pytest.raises(ModelError) as failure:
        read_script(text)
    assert message in failure.value.message
