"""Proxies between a client and an echo server on loopback: cuts, delays, drops, holds, Kafka's requests."""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from veristream.brokers.proxy.kafka import CutOn, HoldOn, Key
from veristream.brokers.proxy.network import ProxyNetwork
from veristream.brokers.proxy.pieces import (
    CUT,
    DROP,
    PASS,
    Change,
    Decision,
    KafkaFrames,
    Pass,
    Piece,
    Request,
    let_pass,
)

PATIENCE_S = 10.0
SOON_S = 0.3
"""How long a test waits for what must not come."""


class Echo(socketserver.ThreadingTCPServer):
    """Returns the bytes that come, and notes them."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), EchoHandler)
        self.came = bytearray()
        self.ended = threading.Event()

    @property
    def address(self) -> str:
        host, port = self.server_address[:2]
        return f"{host!s}:{port}"


class EchoHandler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Echo)
        try:
            while data := self.request.recv(4096):
                self.server.came += data
                self.request.sendall(data)
        except OSError:
            pass
        self.server.ended.set()


@pytest.fixture
def echo() -> Iterator[Echo]:
    with Echo() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def network(echo: Echo) -> Iterator[ProxyNetwork]:
    with ProxyNetwork({"b": echo.address}) as network:
        yield network


@pytest.fixture
def kafka(echo: Echo) -> Iterator[ProxyNetwork]:
    """What is echoed is an answer with the first four bytes as its number."""
    with ProxyNetwork({"b": echo.address}, KafkaFrames) as network:
        yield network


def connect(network: ProxyNetwork) -> socket.socket:
    host, _, port = network.address("b").rpartition(":")
    return socket.create_connection((host, int(port)), PATIENCE_S)


def receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (part := connection.recv(size - len(data))):
        data += part
    return data


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def is_silent(connection: socket.socket) -> bool:
    connection.settimeout(SOON_S)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(PATIENCE_S)
    return False


def test_what_is_said_passes_both_ways(network: ProxyNetwork) -> None:
    data = bytes(range(256)) * 4096
    with closing(connect(network)) as client:
        sender = threading.Thread(target=client.sendall, args=(data,))
        sender.start()
        assert receive(client, len(data)) == data
        sender.join()
        assert network.connections("b") == 1
        client.shutdown(socket.SHUT_WR)
        assert is_closed(client)


def test_a_cut_closes_old_and_new_connections_until_healed(network: ProxyNetwork) -> None:
    with closing(connect(network)) as client:
        client.sendall(b"a")
        assert receive(client, 1) == b"a"
        network.cut("b")
        assert is_closed(client)
    with closing(connect(network)) as client:
        assert is_closed(client)
    network.heal("b")
    with closing(connect(network)) as client:
        client.sendall(b"b")
        assert receive(client, 1) == b"b"
        network.cut_once("b")
        assert is_closed(client)
    with closing(connect(network)) as client:
        client.sendall(b"c")
        assert receive(client, 1) == b"c"


def test_what_is_dropped_does_not_arrive_and_its_connection_ends_when_healed(
    network: ProxyNetwork, echo: Echo
) -> None:
    with closing(connect(network)) as torn, closing(connect(network)) as whole:
        for each in (torn, whole):
            each.sendall(b"a")
            assert receive(each, 1) == b"a"
        network.drop("b")
        torn.sendall(b"lost")
        assert is_silent(torn)
        assert bytes(echo.came) == b"aalost"
        network.heal("b")
        assert is_closed(torn)
        whole.sendall(b"b")
        assert receive(whole, 1) == b"b"


def test_a_delay_holds_up_and_keeps_the_order(network: ProxyNetwork) -> None:
    network.delay("b", 0.2)
    with closing(connect(network)) as client:
        begin_s = time.monotonic()
        for each in (b"1", b"2", b"3"):
            client.sendall(each)
        assert receive(client, 3) == b"123"
        assert time.monotonic() - begin_s >= 0.4  # there and back
        network.heal("b")
        client.sendall(b"4")
        assert receive(client, 1) == b"4"


def test_a_piece_is_dropped_or_late_by_decision(network: ProxyNetwork) -> None:
    seen: list[Piece] = []

    def decide(piece: Piece) -> Decision:
        seen.append(piece)
        if piece.direction == "to broker" and b"x" in piece.data:
            return DROP
        return Pass(0.1) if piece.direction == "to client" else PASS

    network.decide = decide
    with closing(connect(network)) as client:
        client.sendall(b"x")
        assert is_silent(client)
        begin_s = time.monotonic()
        client.sendall(b"y")
        assert receive(client, 1) == b"y"
        assert time.monotonic() - begin_s >= 0.1
    assert [(each.node, each.connection, each.direction, each.number, each.data) for each in seen] == [
        ("b", 0, "to broker", 0, b"x"),
        ("b", 0, "to broker", 1, b"y"),
        ("b", 0, "to client", 0, b"y"),
    ]


def test_a_piece_is_changed_by_decision(network: ProxyNetwork, echo: Echo) -> None:
    """Also into a longer one; the rest of its connection is what it was."""
    network.decide = lambda piece: (
        Change(b"long") if piece.direction == "to broker" and piece.data == b"x" else PASS
    )
    with closing(connect(network)) as client:
        client.sendall(b"x")
        assert receive(client, 4) == b"long"
        client.sendall(b"y")
        assert receive(client, 1) == b"y"
    assert bytes(echo.came) == b"longy"


def ask(key: int, correlation: int, client: bytes = b"me") -> bytes:
    body = struct.pack(">hhih", key, 3, correlation, len(client)) + client
    return struct.pack(">i", len(body)) + body


def answer(correlation: int) -> bytes:
    """What our echo server's client sends so that the echo looks like an answer to `correlation`."""
    return struct.pack(">ii", 4, correlation)


class Responder(EchoHandler):
    """Answers each request with its correlation id."""

    def handle(self) -> None:
        assert isinstance(self.server, Echo)
        try:
            while head := receive(self.request, 4):
                body = receive(self.request, struct.unpack(">i", head)[0])
                self.server.came += head + body
                self.request.sendall(answer(struct.unpack_from(">i", body, 4)[0]))
        except OSError:
            pass
        self.server.ended.set()


@pytest.fixture
def responding(kafka: ProxyNetwork, echo: Echo) -> ProxyNetwork:
    echo.RequestHandlerClass = Responder
    return kafka


def test_an_answer_is_known_by_its_request(responding: ProxyNetwork) -> None:
    seen: list[tuple[str, Request | None]] = []

    def decide(piece: Piece) -> Decision:
        seen.append((piece.direction, piece.request))
        return PASS

    responding.decide = decide
    with closing(connect(responding)) as client:
        client.sendall(ask(Key.METADATA, 7) + ask(Key.PRODUCE, 8))
        assert receive(client, 16) == answer(7) + answer(8)
    metadata, produce = Request(3, 3, 7, "me"), Request(0, 3, 8, "me")
    assert [request for way, request in seen if way == "to broker"] == [metadata, produce]
    assert [request for way, request in seen if way == "to client"] == [metadata, produce]


def test_the_answer_to_a_produce_is_cut_and_the_produce_arrived(
    responding: ProxyNetwork, echo: Echo
) -> None:
    responding.decide = cutting = CutOn(Key.PRODUCE, client="me")
    with closing(connect(responding)) as client:
        client.sendall(ask(Key.METADATA, 1))
        assert receive(client, 8) == answer(1)
        client.sendall(ask(Key.PRODUCE, 2, b"other"))
        assert receive(client, 8) == answer(2)
        client.sendall(ask(Key.PRODUCE, 3))
        assert is_closed(client)
    assert ask(Key.PRODUCE, 3) in bytes(echo.came)
    assert cutting.done == 1
    with closing(connect(responding)) as client:
        client.sendall(ask(Key.PRODUCE, 4))
        assert receive(client, 8) == answer(4)
        cutting.arm()
        client.sendall(ask(Key.PRODUCE, 5))
        assert is_closed(client)
    assert cutting.done == 2


def test_a_held_request_arrives_when_released_even_if_its_sender_has_gone(
    responding: ProxyNetwork, echo: Echo
) -> None:
    responding.decide = holding = HoldOn(Key.PRODUCE)
    with closing(connect(responding)) as client:
        client.sendall(ask(Key.PRODUCE, 1))
        assert holding.gate.wait_reached(PATIENCE_S)
        with closing(connect(responding)) as other:  # other connections are not held up
            other.sendall(ask(Key.PRODUCE, 2))
            assert receive(other, 8) == answer(2)
        client.sendall(ask(Key.METADATA, 3))
        assert is_silent(client)
    echo.ended.clear()
    assert bytes(echo.came) == ask(Key.PRODUCE, 2)
    holding.gate.open()
    assert echo.ended.wait(PATIENCE_S)
    assert bytes(echo.came) == ask(Key.PRODUCE, 2) + ask(Key.PRODUCE, 1) + ask(Key.METADATA, 3)


@pytest.mark.parametrize("junk", [b"\xff\xff\xff\xff....", b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\4abcd"])
def test_who_does_not_speak_kafka_is_turned_away(responding: ProxyNetwork, echo: Echo, junk: bytes) -> None:
    with closing(connect(responding)) as client:
        client.sendall(junk)
        assert is_closed(client)
    assert bytes(echo.came) == b""


def test_a_broker_that_is_down_looks_down(network: ProxyNetwork) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    network.redirect("b", f"127.0.0.1:{port}")
    with closing(connect(network)) as client:
        assert is_closed(client)


def test_a_decision_that_fails_ends_its_connection_and_is_told(echo: Echo) -> None:
    def decide(piece: Piece) -> Decision:
        raise ZeroDivisionError(piece.data)

    network = ProxyNetwork({"b": echo.address})
    network.__enter__()
    network.decide = decide
    with closing(connect(network)) as client:
        client.sendall(b"x")
        assert is_closed(client)
    network.decide = let_pass
    with closing(connect(network)) as client:
        client.sendall(b"y")
        assert receive(client, 1) == b"y"
    with pytest.raises(ZeroDivisionError, match="x"):
        network.__exit__(None, None, None)
    with pytest.raises(RuntimeError, match="have ended"):
        network.cut("b")


def test_what_follows_a_cut_is_not_looked_at(responding: ProxyNetwork, echo: Echo) -> None:
    seen: list[int] = []

    def decide(piece: Piece) -> Decision:
        assert piece.request is not None
        seen.append(piece.request.correlation)
        return CUT if piece.request.correlation == 2 else PASS

    responding.decide = decide
    with closing(connect(responding)) as client:
        client.sendall(ask(Key.FETCH, 1) + ask(Key.FETCH, 2) + ask(Key.FETCH, 3))
        while not is_closed(client):
            pass  # the answer to the first, if it comes in time
    assert echo.ended.wait(PATIENCE_S)
    assert 3 not in seen
    assert bytes(echo.came) == ask(Key.FETCH, 1)


def test_leaving_closes_what_is_open_and_held(echo: Echo) -> None:
    with ProxyNetwork({"b": echo.address}, KafkaFrames) as network:
        network.decide = HoldOn(Key.PRODUCE)
        client = connect(network)
        client.sendall(ask(Key.PRODUCE, 1))
        assert network.decide.gate.wait_reached(PATIENCE_S)
    with closing(client):
        assert is_closed(client)


def test_one_connection_is_cut_and_others_are_not(network: ProxyNetwork) -> None:
    with closing(connect(network)) as first, closing(connect(network)) as second:
        for each in (first, second):
            each.sendall(b"x")
            assert receive(each, 1) == b"x"
        network.cut_connection(0)
        network.cut_connection(7)
        assert is_closed(first)
        second.sendall(b"y")
        assert receive(second, 1) == b"y"
        assert network.connections("b") == 1
