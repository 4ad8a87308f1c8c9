"""Connections over loopback: pipelining, limits, and what happens to peers that misbehave."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from veristream.errors import EnvironmentFailure
from veristream.kabis.protocol.keys import make_key
from veristream.kabis.wire import handshake
from veristream.kabis.wire.endpoints import (
    Address,
    Attached,
    Backoff,
    Client,
    Connection,
    ConnectionLostError,
    Handlers,
    Identity,
    Limits,
    Peer,
    PeerRefusedError,
    RequestError,
    Server,
    WireError,
    connect,
    serve,
)
from veristream.kabis.wire.handshake import LENGTH_BYTES, Role, Secrets, Session

LOOPBACK = Address("127.0.0.1", 0)
SERVER = Identity("chain", Role.STORAGE, "store", make_key(b"s" * 32))
CLIENT = Identity("chain", Role.PRODUCER, "alice", make_key(b"c" * 32))
SMALL = Limits(frame_bytes_max=1 << 20)
IMPATIENT = replace(SMALL, handshake_s=0.2)  # with callers who never finish the handshake
STRICT = replace(SMALL, stall_s=0.3)  # with peers who stop halfway
Test = Callable[[], Coroutine[Any, Any, None]]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Test], None]:
    """Runs a test in a loop of its own, of either kind; one that hangs fails."""
    if request.param == "uvloop":
        return partial(
            _run, factory=pytest.importorskip("uvloop", reason="uvloop is optional").new_event_loop
        )
    return partial(_run, factory=None)


Run = Callable[[Test], None]


def _run(test: Test, factory: Callable[[], asyncio.AbstractEventLoop] | None) -> None:

    async def bounded() -> None:
        async with asyncio.timeout(60):
            await test()

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(bounded())


def authorize(peer: Peer) -> str | None:
    return None if peer == CLIENT.peer else f"{peer.name} is not registered"


async def echo(_peer: Peer, body: bytes) -> bytes:
    return body


@asynccontextmanager
async def serving(handlers: Handlers = Handlers(echo), limits: Limits = Limits(), encrypt: bool = False):  # noqa: B008
    server = await serve(LOOPBACK, SERVER, authorize, handlers, limits, encrypt=encrypt)
    try:
        yield server
    finally:
        await server.close()
        assert server.connections == ()


async def call(server: Server, identity: Identity = CLIENT, **options: Any) -> Connection:
    return await connect(server.address, identity, SERVER.peer, **options)


async def until(condition: Callable[[], bool]) -> None:
    """Waits for something to become true; the test's own limit is the only clock."""
    while not condition():
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("encrypt", [False, True])
def test_many_requests_are_answered_each_with_its_own_answer(run: Run, encrypt: bool) -> None:
    async def answer(peer: Peer, body: bytes) -> bytes:
        assert peer == CLIENT.peer
        if int(body) % 3 == 0:
            await asyncio.sleep(0)  # answers need not come in the order of the questions
        return b"answer " + body

    async def test() -> None:
        async with serving(Handlers(answer), encrypt=encrypt) as server:
            connection = await call(server)
            assert connection.peer == SERVER.peer
            answers = await asyncio.gather(*(connection.request(b"%d" % n) for n in range(1000)))
            assert answers == [b"answer %d" % n for n in range(1000)]

    run(test)


def test_large_frames_and_the_largest(run: Run) -> None:
    async def test() -> None:
        async with serving(limits=SMALL) as server:
            connection = await call(server, limits=SMALL)
            for size in (0, 1, 70_000, 1 << 20):
                assert await connection.request(bytes(size)) == bytes(size)
            with pytest.raises(WireError, match="do not fit"):
                await connection.request(bytes((1 << 20) + 1))
            assert await connection.request(b"still there") == b"still there"

    run(test)


async def turn(_peer: Peer, request: Attached) -> Attached:
    """Sends back what came, with the parts exchanged."""
    return Attached(bytes(request.contents), request.body)


@pytest.mark.parametrize("encrypt", [False, True])
def test_attachments_go_both_ways_beside_all_else(run: Run, encrypt: bool) -> None:
    async def test() -> None:
        async with serving(Handlers(echo, answer_attached=turn), SMALL, encrypt=encrypt) as server:
            connection = await call(server, limits=SMALL)
            for size in (0, 1, 70_000, 1 << 20):
                contents = os.urandom(size)
                attached, answer, message = await asyncio.gather(
                    connection.exchange(Attached(b"body", contents)),
                    connection.exchange(Attached(contents, memoryview(b"small"))),
                    connection.request(b"beside"),
                )
                assert (attached, answer) == (Attached(contents, b"body"), Attached(b"small", contents))
                assert message == b"beside"
            for large in (Attached(b"", bytes((1 << 20) + 1)), Attached(bytes((1 << 20) + 1), b"")):
                with pytest.raises(WireError, match="do not fit"):
                    await connection.exchange(large)
            assert await connection.request(b"still there") == b"still there"

    run(test)


def test_an_attachment_that_nobody_takes_is_refused_and_the_connection_goes_on(run: Run) -> None:
    async def attach(_peer: Peer, body: bytes) -> Attached:
        return Attached(body, b"unasked")

    async def test() -> None:
        async with serving(Handlers(attach)) as server:
            connection = await call(server)
            with pytest.raises(RequestError, match="nothing may be attached"):
                await connection.exchange(Attached(b"", b"contents"))
            with pytest.raises(RequestError, match="an attachment that nobody asked for"):
                await connection.request(b"body")
            assert await connection.exchange(b"body") == Attached(b"body", b"unasked")

    run(test)


@pytest.mark.parametrize("encrypt", [False, True])
def test_only_an_encrypted_session_notices_itself_that_an_attachment_was_changed(
    run: Run, encrypt: bool
) -> None:
    """Otherwise it is whoever takes the attachment that holds it against a hash, as storage parties do."""

    async def test() -> None:
        async with serving(Handlers(answer_attached=turn), STRICT, encrypt=encrypt) as server:
            (reader, writer), session = await open_session(server)
            writer.write(session.seal(b"\x09" + (1).to_bytes(8, "big") + b"body"))
            contents = bytearray(session.seal(b"contents") if encrypt else handshake.prefix(b"contents"))
            contents[-1] ^= 1
            writer.write(contents)
            if encrypt:
                await expect_end(reader)
            else:
                answer = session.open(await read_frame(reader))
                assert answer == b"\x0a" + (1).to_bytes(8, "big") + b"contentr"
                assert await read_frame(reader) == b"body"
            writer.close()

    run(test)


def test_a_failure_says_why_and_the_connection_goes_on(run: Run) -> None:
    async def answer(_peer: Peer, body: bytes) -> bytes:
        if body == b"bad":
            raise RequestError("it is bad")
        return body

    async def test() -> None:
        async with serving(Handlers(answer)) as server:
            connection = await call(server)
            with pytest.raises(RequestError, match="it is bad"):
                await connection.request(b"bad")
            assert await connection.request(b"good") == b"good"

    run(test)


def test_messages_arrive_in_order_and_the_server_can_ask_too(run: Run) -> None:
    heard: list[bytes] = []

    async def test() -> None:
        handlers = Handlers(receive=lambda _peer, body: heard.append(body))
        async with serving(handlers) as server:
            connection = await call(server, handlers=Handlers(echo))
            for number in range(100):
                await connection.send(b"%d" % number)
            await until(lambda: len(heard) == 100)
            assert heard == [b"%d" % number for number in range(100)]
            assert await server.connections[0].request(b"and you?") == b"and you?"

    run(test)


def test_a_client_that_is_not_registered_is_told_so(run: Run) -> None:
    async def test() -> None:
        async with serving() as server:
            stranger = Identity("chain", Role.ANONYMOUS, "eve", make_key(b"e" * 32))
            with pytest.raises(PeerRefusedError, match="eve is not registered"):
                await call(server, stranger)
            await until(lambda: server.connections == ())

    run(test)


def test_another_server_or_chain_is_not_talked_to(run: Run) -> None:
    async def test() -> None:
        async with serving() as server:
            with pytest.raises(WireError, match="expected was"):
                await connect(server.address, CLIENT, replace(SERVER.peer, public=bytes(32)))
            with pytest.raises(WireError, match="of the chain 'chain'"):
                await call(server, replace(CLIENT, chain_id="other"))

    run(test)


def test_nobody_there(run: Run) -> None:
    async def test() -> None:
        async with serving() as server:
            address = server.address
        with pytest.raises(ConnectionLostError, match="nobody answers"):
            await connect(address, CLIENT, None)
        async with serving() as server:
            with pytest.raises(EnvironmentFailure, match="cannot listen"):
                await serve(server.address, SERVER, authorize, Handlers())

    run(test)


# Peers that misbehave speak to the server over a bare socket.

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def open_raw(server: Server) -> Stream:
    return await asyncio.open_connection(server.address.host, server.address.port)


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big"))


async def open_session(server: Server) -> tuple[Stream, Session]:
    """A connection whose frames are ours to send as we please."""
    reader, writer = await open_raw(server)
    ours = handshake.ClientHandshake(CLIENT, SERVER.peer, Secrets.draw(os.urandom(64)))
    writer.write(handshake.prefix(ours.hello))
    proof, session = ours.finish(await read_frame(reader))
    writer.write(handshake.prefix(proof))
    assert session.open(await read_frame(reader))[0] == 7  # welcome
    return (reader, writer), session


def request(session: Session, number: int, body: bytes) -> bytes:
    return session.seal(b"\x01" + number.to_bytes(8, "big") + body)


async def expect_end(reader: asyncio.StreamReader) -> None:
    """The server ends the connection, having sent nothing more."""
    with suppress(ConnectionError):
        assert await reader.read() == b""


Misdeed = Callable[[Stream, Session], Awaitable[None]]


async def replay(stream: Stream, session: Session) -> None:
    frame = request(session, 1, b"once")
    stream[1].write(frame)
    assert session.open(await read_frame(stream[0])) == b"\x02" + (1).to_bytes(8, "big") + b"once"
    stream[1].write(frame)


async def reorder(stream: Stream, session: Session) -> None:
    frames = [request(session, number, b"?") for number in range(2)]
    stream[1].write(frames[1] + frames[0])


async def cut(stream: Stream, session: Session) -> None:
    stream[1].write(request(session, 1, b"half")[:-1])  # and then nothing: a silent peer


async def swell(stream: Stream, session: Session) -> None:
    stream[1].write((0xFFFFFFFF).to_bytes(4, "big"))


async def swell_a_little(stream: Stream, session: Session) -> None:
    stream[1].write(request(session, 1, bytes((1 << 20) + 1)))


async def corrupt(stream: Stream, session: Session) -> None:
    frame = bytearray(request(session, 1, b"pay 1"))
    frame[-20] ^= 1
    stream[1].write(frame)


async def behead(stream: Stream, session: Session) -> None:
    stream[1].write(session.seal(b"\x01"))


async def invent(stream: Stream, session: Session) -> None:
    stream[1].write(session.seal(b"\x63" + bytes(8)))


async def welcome(stream: Stream, session: Session) -> None:
    stream[1].write(session.seal(b"\x07" + bytes(8)))


@pytest.mark.parametrize(
    "misdeed", [replay, reorder, cut, swell, swell_a_little, corrupt, behead, invent, welcome]
)
def test_a_peer_that_breaks_the_rules_is_cut_off(run: Run, misdeed: Misdeed) -> None:
    async def test() -> None:
        async with serving(limits=STRICT) as server:
            stream, session = await open_session(server)
            other = await call(server)
            await misdeed(stream, session)
            await expect_end(stream[0])
            stream[1].close()
            await until(lambda: len(server.connections) == 1)
            assert await other.request(b"nobody else is harmed") == b"nobody else is harmed"

    run(test)


@pytest.mark.parametrize(
    "said", [b"", b"\0\0", b"\0\0\0\x10half", bytes(100), b"\xff" * 100, b"GET / HTTP/1.1\r\n"]
)
def test_a_peer_that_does_not_prove_its_key_is_cut_off(run: Run, said: bytes) -> None:
    async def test() -> None:
        async with serving(limits=IMPATIENT) as server:
            reader, writer = await open_raw(server)
            writer.write(said)
            await expect_end(reader)
            writer.close()

    run(test)


def test_bytes_that_trickle_in_win_no_time(run: Run) -> None:
    async def test() -> None:
        async with serving(limits=IMPATIENT) as server:
            reader, writer = await open_raw(server)
            ended = asyncio.ensure_future(expect_end(reader))
            writer.write((2000).to_bytes(4, "big"))
            while not ended.done():
                writer.write(b"x")
                await asyncio.sleep(0.01)
            await ended
            writer.close()

    run(test)


def test_a_silent_server_is_given_up(run: Run) -> None:
    async def test() -> None:
        silent = await asyncio.start_server(lambda reader, writer: asyncio.sleep(60), "127.0.0.1", 0)
        address = Address(*silent.sockets[0].getsockname()[:2])
        # As long as the handshake may a connection take, which is there at once unless we do not run.
        with pytest.raises(WireError, match="the handshake takes too long"):
            await connect(address, CLIENT, SERVER.peer, limits=replace(SMALL, handshake_s=1.0))
        silent.close()

    run(test)


def test_a_peer_that_asks_and_does_not_read_is_cut_off_and_holds_little(run: Run) -> None:
    answered = 0

    async def answer(_peer: Peer, _body: bytes) -> bytes:
        nonlocal answered
        answered += 1
        return bytes(1 << 20)

    async def test() -> None:
        limits = replace(STRICT, write_bytes_max=1 << 16)
        async with serving(Handlers(answer), limits) as server:
            (_reader, writer), session = await open_session(server)
            writer.write(b"".join(request(session, number, b"more") for number in range(200)))
            await until(lambda: server.connections == ())
            writer.close()
        # What the system's own buffers hold is some MiB; the other answers were never made.
        assert 1 <= answered < 50

    run(test)


@pytest.mark.parametrize("attached", [False, True])
def test_work_in_hand_is_bounded_by_number_and_by_bytes(run: Run, attached: bool) -> None:
    async def test() -> None:
        gate = asyncio.Event()
        begun = 0

        async def answer(_peer: Peer, body: bytes) -> bytes:
            nonlocal begun
            begun += 1
            await gate.wait()
            return body[:1]

        async def answer_attached(peer: Peer, request: Attached) -> bytes:
            return await answer(peer, bytes(request.contents))

        for limits, size, expected in (
            (Limits(requests_max=10), 10, 10),
            (Limits(request_bytes_max=50_000), 10_000, 5),
        ):
            gate.clear()
            begun = 0
            handlers = Handlers(answer, answer_attached=answer_attached)
            async with serving(handlers, limits) as server:
                connection = await call(server)
                body = Attached(b"", bytes(size)) if attached else bytes(size)
                answers = [asyncio.ensure_future(connection.exchange(body)) for _ in range(100)]
                await until(lambda: begun >= expected)  # noqa: B023
                for _ in range(50):
                    await asyncio.sleep(0)
                assert begun == expected
                gate.set()
                assert await asyncio.gather(*answers) == [b"\0"] * 100

    run(test)


def test_a_peer_that_lives_is_not_taken_for_silent(run: Run) -> None:
    async def test() -> None:
        limits = Limits(idle_s=0.8)
        async with serving(limits=limits) as server:
            connection = await call(server, limits=Limits(idle_s=1000))
            await asyncio.sleep(1.8)
            assert await connection.request(b"here") == b"here"
            stream, _session = await open_session(server)  # answers no ping
            await until(lambda: len(server.connections) == 1)
            stream[1].close()

    run(test)


def test_a_peer_is_not_silent_while_we_do_not_listen(run: Run) -> None:
    """The process did not run for longer than a peer may be silent; to the watch it looks the same."""

    async def test() -> None:
        async with serving(limits=Limits(idle_s=0.4)) as server:
            connection = await call(server, limits=Limits(idle_s=1000))
            for _ in range(3):
                time.sleep(0.6)
                await asyncio.sleep(0.05)  # the watch looks before the peer says anything
                assert await connection.request(b"here") == b"here"

    run(test)


def test_what_came_while_we_did_not_listen_is_heard_now(run: Run) -> None:
    """And not at a time to come: else a peer that is gone would be taken for a living one until then."""

    async def test() -> None:
        async with serving() as server:
            connection = await call(server)
            connection._timer.cancel()
            connection._due -= 1000.0  # the watch comes so late, and the peer has spoken just now
            connection._watch()
            now = asyncio.get_running_loop().time()
            assert max(connection._heard, connection._frame_begun, connection._paused) <= now

    run(test)


def test_whoever_waits_learns_that_the_connection_ended(run: Run) -> None:
    async def wait(_peer: Peer, _body: bytes) -> bytes:
        await asyncio.sleep(60)
        return b""

    async def test() -> None:
        async with serving(Handlers(wait)) as server:
            connection = await call(server)
            waiting = asyncio.ensure_future(connection.request(b"?"))
            with pytest.raises(TimeoutError):
                await connection.request(b"?", timeout_s=0.01)
            server.connections[0].abort()
            with pytest.raises(ConnectionLostError):
                await waiting
            with pytest.raises(ConnectionLostError):
                await connection.request(b"?")
            assert connection.closed

    run(test)


def test_an_error_of_ours_ends_the_connection_and_no_other(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(_peer: Peer, body: bytes) -> bytes:
        assert body != b"bug"
        return body

    async def test() -> None:
        async with serving(Handlers(answer)) as server:
            connection, other = await call(server), await call(server)
            with pytest.raises(ConnectionLostError):
                await connection.request(b"bug")
            assert await other.request(b"fine") == b"fine"

    run(test)
    assert "a request could not be answered" in caplog.text


class Middle:
    """A proxy that may change what passes: the first `count` frames of the handshake are its to rewrite."""

    def __init__(self, target: Address, rewrite: Callable[[int, bytes], bytes]) -> None:
        self._target = target
        self._rewrite = rewrite
        self.frames = 0

    async def start(self) -> Address:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return Address(*self._server.sockets[0].getsockname()[:2])

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(self._target.host, self._target.port)
        pipes = (self._pipe(reader, back), self._pipe(there, writer))
        await asyncio.gather(*pipes, return_exceptions=True)

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                frame = await read_frame(reader)
                self.frames += 1
                writer.write(handshake.prefix(self._rewrite(self.frames, frame)))
        finally:
            writer.close()

    async def stop(self) -> None:
        self._server.close()


def test_a_man_in_the_middle_can_only_pass_things_on(run: Run) -> None:
    def swap(number: int, frame: bytes) -> bytes:
        if number == 1:
            return replace(handshake._Hello.decode(frame), ephemeral=b"\x09" + bytes(31)).encode()
        if number == 2:
            answer = handshake._Answer.decode(frame)
            return replace(answer, hello=replace(answer.hello, ephemeral=b"\x09" + bytes(31))).encode()
        return frame

    def tamper(number: int, frame: bytes) -> bytes:
        return frame if number <= 4 else frame[:-1] + bytes([frame[-1] ^ 1])

    async def test() -> None:
        async with serving() as server:
            honest = Middle(server.address, lambda _number, frame: frame)
            connection = await connect(await honest.start(), CLIENT, SERVER.peer)
            assert await connection.request(b"hello") == b"hello"
            connection.close()
            swapping = Middle(server.address, swap)
            with pytest.raises(WireError, match="did not sign this handshake"):
                await connect(await swapping.start(), CLIENT, SERVER.peer)
            tampering = Middle(server.address, tamper)
            connection = await connect(await tampering.start(), CLIENT, SERVER.peer)
            with pytest.raises(ConnectionLostError):
                await connection.request(b"hello")
            for middle in (honest, swapping, tampering):
                await middle.stop()

    run(test)


def test_a_client_calls_again_until_somebody_answers(run: Run) -> None:
    async def test() -> None:
        async with serving() as server:
            address = server.address
            client = Client(
                lambda: connect(address, CLIENT, SERVER.peer),
                lambda: 0.0,
                Backoff(first_s=0.005, last_s=0.02),
            )
            assert await client.request(b"1", timeout_s=30) == b"1"
        await until(lambda: not client.connected)
        with pytest.raises(TimeoutError):
            await client.request(b"2", timeout_s=0.05)
        await until(lambda: client.problem is not None)
        assert isinstance(client.problem, ConnectionLostError)
        server = await serve(address, SERVER, authorize, Handlers(echo))
        assert await client.request(b"3", timeout_s=30) == b"3"
        await client.close()
        await until(lambda: server.connections == ())
        await server.close()

    run(test)


def test_waits_grow_to_a_limit() -> None:
    backoff = Backoff(first_s=1.0, last_s=10.0)
    assert [backoff.wait_s(failures, 0.0) for failures in (1, 2, 3, 4, 5, 1000)] == [1, 2, 4, 8, 10, 10]
    assert backoff.wait_s(3, 0.5) == 3.0


@pytest.mark.parametrize(
    ("text", "host"), [("127.0.0.1:80", "127.0.0.1"), ("[::1]:80", "::1"), ("a.b:80", "a.b")]
)
def test_addresses(text: str, host: str) -> None:
    assert Address.parse(text) == Address(host, 80)
    assert str(Address.parse(text)) == text
    for wrong in ("", "80", ":80", "host:", "host:x", "host:70000"):
        with pytest.raises(ValueError, match="is no address"):
            Address.parse(wrong)
