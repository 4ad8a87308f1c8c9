"""Random messages, cut anywhere by sender, proxy and receiver: none is lost, changed or out of order."""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veristream.brokers.proxy import carrier, flow
from veristream.brokers.proxy.kafka import Key
from veristream.brokers.proxy.network import ProxyNetwork
from veristream.brokers.proxy.pieces import (
    DROP,
    LOOKED_AT,
    PASS,
    Decide,
    Decision,
    Gate,
    Hold,
    KafkaFrames,
    Pass,
    Piece,
    let_pass,
)

PATIENCE_S = 20.0
BUFFERS = 4096
"""The smallest that the system permits is a little more than half of it."""
SIZES = (8, 14, 100, flow.READ_FIRST - 1, flow.READ_FIRST, flow.READ_MAX + 1, LOOKED_AT + 300_000)


@dataclass(frozen=True)
class Said:
    """What one side says: messages, and what a proxy does to each: pass, drop, hold, or delay."""

    sizes: tuple[int, ...]
    acts: str
    seed: int

    def frames(self) -> list[bytes]:
        """Returns messages that are requests and answers at once: their first number is the place."""
        return [
            struct.pack(">ihhih", max(14, size) - 4, Key.FETCH, place, place, 0)
            + random.Random(self.seed + place).randbytes(max(14, size) - 14)
            for place, size in enumerate(self.sizes)
        ]

    def expected(self) -> bytes:
        """Returns what must arrive."""
        return b"".join(frame for frame, act in zip(self.frames(), self.acts, strict=True) if act != "x")


@st.composite
def said(draw: st.DrawFn) -> Said:
    sizes = draw(
        st.lists(st.one_of(st.sampled_from(SIZES), st.integers(14, 5000)), min_size=1, max_size=12)
    )
    acts = draw(st.text("...xhd", min_size=len(sizes), max_size=len(sizes)))
    return Said(tuple(sizes), acts, draw(st.integers(0, 1 << 30)))


class Acts:
    """Does to each piece what its side says; opens each gate a moment later."""

    def __init__(self, sides: dict[str, Said]) -> None:
        self._sides = sides
        self.timers: list[threading.Timer] = []
        self.passed: list[tuple[str, int]] = []

    def __call__(self, piece: Piece) -> Decision:
        act = self._sides[piece.direction].acts[piece.number]
        note = lambda: self.passed.append((piece.direction, piece.number))  # noqa: E731
        if act == "x":
            return DROP
        if act == "d":
            return Pass(0.002, note)
        if act == "h":
            gate = Gate()
            self.timers.append(threading.Timer(0.003, gate.open))
            self.timers[-1].start()
            return Hold(gate, note)
        return Pass(then=note)


def small(one: socket.socket) -> socket.socket:
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        one.setsockopt(socket.SOL_SOCKET, option, BUFFERS)
    one.settimeout(PATIENCE_S)
    return one


@contextmanager
def connected(decide: Decide) -> Iterator[tuple[ProxyNetwork, socket.socket, socket.socket]]:
    """A proxy between a client and the broker's end of its connection, both with small buffers."""
    with closing(small(socket.create_server(("127.0.0.1", 0)))) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with (
            ProxyNetwork({"b": address}, KafkaFrames) as network,
            closing(small(socket.socket())) as client,
        ):
            network.decide = decide
            host, _, port = network.address("b").rpartition(":")
            client.connect((host, int(port)))
            with closing(small(server.accept()[0])) as broker:
                yield network, client, broker


def send(one: socket.socket, data: bytes, seed: int) -> None:
    """Sends in pieces of any size, and says that this is all."""
    chance, at = random.Random(seed), 0
    while at < len(data):
        size = chance.choice((1, 3, 13, 500, 5000, 100_000))
        one.sendall(data[at : at + size])
        at += size
    one.shutdown(socket.SHUT_WR)


def take(one: socket.socket, seed: int, found: bytearray) -> None:
    """Takes all until the end, in pieces of any size."""
    chance = random.Random(seed)
    while data := one.recv(chance.choice((1, 7, 900, 70_000))):
        found += data


def exchange(decide: Decide, forth: Said, back: Said) -> tuple[bytes, bytes]:
    """Returns what arrives at the broker and at the client, when both say everything at once."""
    at_broker, at_client = bytearray(), bytearray()
    with connected(decide) as (_, client, broker):
        threads = [
            threading.Thread(target=send, args=(client, b"".join(forth.frames()), forth.seed)),
            threading.Thread(target=send, args=(broker, b"".join(back.frames()), back.seed)),
            threading.Thread(target=take, args=(broker, forth.seed, at_broker)),
            threading.Thread(target=take, args=(client, back.seed, at_client)),
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join(PATIENCE_S)
            assert not each.is_alive()
    return bytes(at_broker), bytes(at_client)


@settings(max_examples=15, deadline=None)
@given(said(), said())
def test_what_is_steered_arrives_but_for_what_is_dropped(forth: Said, back: Said) -> None:
    acts = Acts({"to broker": forth, "to client": back})
    assert exchange(acts, forth, back) == (forth.expected(), back.expected())
    for each in acts.timers:
        each.join()
    for direction, one in (("to broker", forth), ("to client", back)):
        expected = [place for place, act in enumerate(one.acts) if act != "x"]
        assert [place for way, place in acts.passed if way == direction] == expected


@pytest.mark.parametrize("has_splice", [True, False])
def test_what_nobody_looks_at_arrives_whole(has_splice: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrier, "HAS_SPLICE", has_splice and carrier.HAS_SPLICE)

    @settings(max_examples=8, deadline=None)
    @given(said(), said())
    def check(forth: Said, back: Said) -> None:
        whole = b"".join(forth.frames()), b"".join(back.frames())
        assert exchange(let_pass, forth, back) == whole

    check()


def test_steering_begins_with_a_message_and_not_inside_of_one() -> None:
    one = Said(SIZES * 2, "." * len(SIZES) * 2, 7)
    asked: list[int] = []

    def decide(piece: Piece) -> Decision:
        asked.append(piece.number)
        return PASS

    with connected(let_pass) as (network, client, broker):
        for place, frame in enumerate(one.frames()):
            network.decide = decide if place % 3 == 1 else let_pass
            half = max(14, len(frame) // 2) if place % 3 == 0 else len(frame)  # its head is whole
            for part in filter(None, (frame[:half], frame[half:])):
                sending = threading.Thread(target=client.sendall, args=(part,))
                sending.start()
                found = b""
                while len(found) < len(part):
                    found += broker.recv(len(part) - len(found))
                sending.join(PATIENCE_S)
                assert found == part
                network.decide = decide
    assert asked == [place for place in range(len(one.sizes)) if place % 3 == 1]
