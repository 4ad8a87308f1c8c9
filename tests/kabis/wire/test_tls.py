"""TLS around our handshake: what it hides, whom it refuses, and that all limits hold during it."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.kabis.wire.certified import FUTURE, PAST, Certified, found
from tests.kabis.wire.test_admission import refusals_of
from tests.kabis.wire.test_endpoints import (
    CLIENT,
    LOOPBACK,
    SERVER,
    SMALL,
    STRICT,
    Run,
    authorize,
    echo,
    open_raw,
    read_frame,
    run,
    turn,
    until,
)
from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.wire.endpoints import (
    Address,
    Attached,
    Connection,
    ConnectionLostError,
    Handlers,
    Limits,
    PeerRefusedError,
    Quotas,
    Server,
    WireError,
    connect,
    serve,
)
from veristream.kabis.wire.handshake import Role, prefix
from veristream.kabis.wire.tls import ServerTls, Tls, make_client_context, rehearse

__all__ = ["run"]  # the fixture

TLS_IN_TURN = Handlers(echo, answer_attached=turn)


@pytest.fixture
def certified(tmp_path: Path) -> Certified:
    return found(tmp_path / "ours")


@asynccontextmanager
async def serving(
    tls: Tls | None, limits: Limits = SMALL, handlers: Handlers = TLS_IN_TURN
) -> AsyncIterator[Server]:
    server = await serve(LOOPBACK, replace(SERVER, tls=tls), authorize, handlers, limits)
    try:
        yield server
    finally:
        await server.close()
        assert server.connections == ()


async def call(server: Server | Address, tls: Tls | None, **options: Any) -> Connection:
    address = server.address if isinstance(server, Server) else server
    return await connect(address, replace(CLIENT, tls=tls), SERVER.peer, **{"limits": SMALL, **options})


class Proxy:
    """Passes bytes on and keeps them; `lie` may change those to the server."""

    def __init__(self, to: Address) -> None:
        self.to = to
        self.seen = bytearray()
        self.writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._meet, "127.0.0.1", 0)
        self.address = Address(*self._server.sockets[0].getsockname()[:2])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for each in self.writers:
            each.close()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_connection(self.to.host, self.to.port)
        self.writers += [writer, to_writer]
        await asyncio.gather(self._pass(reader, to_writer), self._pass(to_reader, writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                self.seen += data
                writer.write(data)
        writer.close()


def test_requests_large_frames_and_attachments_pass(run: Run, certified: Certified) -> None:
    async def test() -> None:
        tls = certified.certify("store")
        async with serving(tls) as server:
            connection = await call(server, Tls(certified.ca), handlers=Handlers(echo))
            assert connection.peer == SERVER.peer
            answers = await asyncio.gather(*(connection.request(b"%d" % n) for n in range(1000)))
            assert answers == [b"%d" % n for n in range(1000)]
            for size in (0, 1, 16_384, 70_000, 1 << 20):
                contents = os.urandom(size)
                attached, plain = await asyncio.gather(
                    connection.exchange(Attached(b"body", contents)), connection.request(contents)
                )
                assert (attached, plain) == (Attached(contents, b"body"), contents)
            large = os.urandom(1 << 20)
            assert await server.connections[0].request(large) == large

    run(test)


@pytest.mark.parametrize("inside", [False, True])
def test_no_payload_passes_in_clear(run: Run, certified: Certified, inside: bool) -> None:
    """The proxy sees all that passes; without TLS it sees the payload, so it would see it here."""

    async def test() -> None:
        server_tls, client_tls = (certified.certify("store"), Tls(certified.ca)) if inside else (None, None)
        async with serving(server_tls) as server, Proxy(server.address) as proxy:
            connection = await call(proxy.address, client_tls)
            payload = b"two pears and a plum " * 1000
            assert await connection.request(payload) == payload
            assert await connection.exchange(Attached(b"attached", payload)) == Attached(
                payload, b"attached"
            )
            assert len(proxy.seen) > 4 * len(payload)
            for words in (b"two pears", b"attached", b"alice", b"chain"):
                assert (words in proxy.seen) is not inside

    run(test)


def test_the_other_side_is_told_of_a_mistake(run: Run, certified: Certified, tmp_path: Path) -> None:
    """A pair of a server's and a client's TLS, and what the client is told."""
    others = found(tmp_path / "others")
    good, mine = certified.certify("good"), Tls(certified.ca)
    strict = certified.certify("strict", client_ca=certified.ca)
    cases: list[tuple[Tls | None, Tls | None, str]] = [
        (good, None, "the other side speaks TLS, and we do not: see .tls. in kabis.toml"),
        (None, mine, "127.0.0.1 ended the connection during the TLS handshake; it may not speak TLS 1.3"),
        (certified.certify("old", period=PAST), mine, "the certificate of 127.0.0.1 has expired"),
        (certified.certify("early", period=FUTURE), mine, "of 127.0.0.1 is not valid yet"),
        (certified.certify("away", "10.0.0.1"), mine, "of 127.0.0.1 is not for this address"),
        (certified.certify("named", "localhost"), mine, "of 127.0.0.1 is not for this address"),
        (good, Tls(others.ca), "of 127.0.0.1 is of no authority that we trust"),
        (strict, mine, "the other side requires a certificate of ours"),
        (strict, replace(others.certify("eve"), ca=certified.ca), "does not trust our certificate"),
        (strict, replace(certified.certify("late", period=PAST)), "finds our certificate expired"),
    ]

    async def test() -> None:
        for server_tls, client_tls, told in cases:
            async with serving(server_tls) as server:
                with pytest.raises(WireError, match=told):
                    await call(server, client_tls)
        async with serving(strict) as server:
            connection = await call(server, certified.certify("welcome"))
            assert await connection.request(b"in") == b"in"

    run(test)


@pytest.mark.parametrize(
    ("first", "told"),
    [
        (None, "the other side speaks TLS, and we do not"),
        (b"GET / HTTP/1.1\r\n\r\n", "the other side speaks HTTP without TLS"),
        (b"\x00\x00\x00\x64 our own hello without TLS", "the other side does not speak TLS"),
    ],
)
def test_the_server_logs_why(
    run: Run, certified: Certified, caplog: pytest.LogCaptureFixture, first: bytes | None, told: str
) -> None:
    caplog.set_level("INFO")

    async def test() -> None:
        async with serving(None if first is None else certified.certify("store")) as server:
            if first is None:
                with pytest.raises(ConnectionLostError):
                    await call(server, Tls(certified.ca))
            else:
                reader, writer = await open_raw(server)
                writer.write(first)
                assert await reader.read() == bytes.fromhex("15030300020246")
                writer.close()
            await until(lambda: told in caplog.text)
            assert refusals_of(server) == {("address 127.0.0.1", "bad handshake"): 1}

    run(test)


def test_a_client_of_tls_1_2_is_refused(run: Run, certified: Certified) -> None:
    async def test() -> None:
        context = ssl.create_default_context(cadata=certified.ca)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        async with serving(certified.certify("store")) as server:
            with pytest.raises(ssl.SSLError, match="ALERT_PROTOCOL_VERSION"):
                await asyncio.open_connection(server.address.host, server.address.port, ssl=context)
            context.maximum_version = ssl.TLSVersion.TLSv1_3
            _reader, writer = await asyncio.open_connection(
                server.address.host, server.address.port, ssl=context
            )
            assert writer.get_extra_info("ssl_object").version() == "TLSv1.3"
            writer.close()

    run(test)


def test_a_server_of_tls_1_2_is_refused(run: Run, certified: Certified) -> None:
    async def test() -> None:
        tls = certified.certify("store")
        assert tls.certificate and tls.key
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls.certificate, tls.key)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        old = await asyncio.start_server(
            lambda _reader, writer: writer.close(), "127.0.0.1", 0, ssl=context
        )
        async with old:
            with pytest.raises(WireError, match=r"it may not speak TLS 1\.3"):
                await call(Address(*old.sockets[0].getsockname()[:2]), Tls(certified.ca))

    run(test)


class Middle(Proxy):
    """Has a valid certificate of its own for the same address, and passes on what is inside."""

    def __init__(self, to: Address, tls: Tls) -> None:
        super().__init__(to)
        self.tls = tls

    async def __aenter__(self) -> Middle:
        context = ServerTls.load(self.tls).context
        self._server = await asyncio.start_server(self._meet, "127.0.0.1", 0, ssl=context)
        self.address = Address(*self._server.sockets[0].getsockname()[:2])
        return self

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        context = make_client_context(self.tls)
        to_reader, to_writer = await asyncio.open_connection(self.to.host, self.to.port, ssl=context)
        self.writers += [writer, to_writer]
        await asyncio.gather(self._pass(reader, to_writer), self._pass(to_reader, writer))


def test_somebody_between_with_another_valid_certificate_gains_nothing(
    run: Run, certified: Certified
) -> None:
    async def test() -> None:
        mine, theirs = certified.certify("store"), certified.certify("between")
        async with serving(mine) as server:
            async with Middle(server.address, theirs) as middle:
                with pytest.raises(WireError, match="did not sign this handshake on TLS with the certif"):
                    await call(middle.address, Tls(certified.ca))
                assert b"alice" not in middle.seen  # it was not even told who calls
            # With the same certificate it passes, so nothing but the binding has stopped it.
            async with Middle(server.address, mine) as middle:
                connection = await call(middle.address, Tls(certified.ca))
                assert await connection.request(b"in") == b"in"

    run(test)


def test_a_server_that_binds_to_nothing_is_refused(run: Run, certified: Certified) -> None:
    """Whoever ends TLS in front of a party that has none cannot pass its handshake on."""

    async def test() -> None:
        tls = certified.certify("store")
        async with serving(None) as server:

            async def pass_on(caller: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
                to_reader, to_writer = await open_raw(server)
                to_writer.write(prefix(await read_frame(caller)))
                back.write(prefix(await read_frame(to_reader)))
                await caller.read()
                back.close()
                to_writer.close()

            front = await asyncio.start_server(pass_on, "127.0.0.1", 0, ssl=ServerTls.load(tls).context)
            async with front:
                with pytest.raises(WireError, match="did not sign this handshake on TLS"):
                    await call(Address(*front.sockets[0].getsockname()[:2]), Tls(certified.ca))

    run(test)


def test_a_pinned_certificate_is_enough(run: Run, certified: Certified) -> None:
    async def test() -> None:
        tls = certified.certify("store")
        assert tls.certificate
        pinned = Tls(tls.certificate.read_text())
        async with serving(tls) as server, serving(certified.certify("other")) as other:
            assert await (await call(server, pinned)).request(b"in") == b"in"
            with pytest.raises(WireError, match="of no authority that we trust"):
                await call(other, pinned)

    run(test)


def test_a_refused_client_is_told_so_inside(run: Run, certified: Certified) -> None:
    async def test() -> None:
        async with serving(certified.certify("store")) as server:
            stranger = replace(CLIENT, role=Role.ANONYMOUS, tls=Tls(certified.ca))
            with pytest.raises(PeerRefusedError, match="alice is not registered"):
                await connect(server.address, stranger, SERVER.peer)

    run(test)


def test_callers_who_never_finish_tls_are_half_open(run: Run, certified: Certified) -> None:
    async def test() -> None:
        limits = replace(SMALL, handshake_s=30.0, quotas=Quotas(half_open_per_address=10))
        async with serving(certified.certify("store"), limits) as server:
            good = await call(server, Tls(certified.ca))
            raw = [await open_raw(server) for _ in range(30)]
            for _reader, writer in raw[::2]:
                writer.write(bytes.fromhex("160301"))  # a record of TLS begins
            await until(lambda: len(server.connections) <= 11)
            other = await call(server, Tls(certified.ca))
            assert await good.request(b"1") == b"1" and await other.request(b"2") == b"2"
            assert refusals_of(server)[("address 127.0.0.1", "half-open connections")] >= 20
            for _reader, writer in raw:
                writer.close()

    run(test)


@pytest.mark.parametrize("finishes", [False, True])
def test_tls_and_our_handshake_have_one_time_limit(run: Run, certified: Certified, finishes: bool) -> None:
    async def test() -> None:
        tls = certified.certify("store")
        async with serving(tls, replace(SMALL, handshake_s=0.4)) as server:
            if finishes:
                context = make_client_context(tls)
                reader, writer = await asyncio.open_connection(
                    server.address.host, server.address.port, ssl=context
                )
            else:
                reader, writer = await open_raw(server)
            with suppress(ConnectionError):
                assert await reader.read() == b""
            await until(lambda: server.connections == ())
            writer.close()

    run(test)


def test_a_client_leaves_a_server_that_never_finishes_tls(run: Run, certified: Certified) -> None:
    async def test() -> None:
        async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        silent = await asyncio.start_server(keep, "127.0.0.1", 0)
        async with silent:
            address = Address(*silent.sockets[0].getsockname()[:2])
            with pytest.raises(ConnectionLostError, match="the handshake takes too long"):
                await call(address, Tls(certified.ca), limits=replace(SMALL, handshake_s=0.2))

    run(test)


class Flipping(Proxy):
    """Changes one bit of what is sent after the handshakes."""

    flips = False

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := bytearray(await reader.read(1 << 16)):
                if self.flips:
                    data[-1] ^= 1
                writer.write(data)
        writer.close()


def test_a_changed_bit_ends_the_connection(run: Run, certified: Certified) -> None:
    async def test() -> None:
        async with (
            serving(certified.certify("store"), STRICT) as server,
            Flipping(server.address) as proxy,
        ):
            connection = await call(proxy.address, Tls(certified.ca))
            assert await connection.request(b"1") == b"1"
            proxy.flips = True
            with pytest.raises(ConnectionLostError):
                await connection.request(b"2")

    run(test)


def test_a_peer_that_does_not_read_is_not_answered_without_end(run: Run, certified: Certified) -> None:
    """What the socket has not taken counts as unsent, so that requests wait."""

    async def test() -> None:
        limits = replace(SMALL, requests_max=64, write_bytes_max=1 << 18)
        made = 0

        async def answer(_peer: Any, _body: bytes) -> bytes:
            nonlocal made
            made += 1
            return bytes(1 << 20)

        async with serving(certified.certify("store"), limits, Handlers(answer)) as server:
            connection = await call(server, Tls(certified.ca))
            connection._transport.pause_reading()
            asked = [asyncio.ensure_future(connection.request(b"%d" % n)) for n in range(60)]
            await until(lambda: made > 0 and server.connections[0].unsent_bytes > 1 << 18)
            for _ in range(50):
                await asyncio.sleep(0.002)
            assert made < 30 and server.connections[0].unsent_bytes < 3 << 20
            connection._transport.resume_reading()
            assert {len(each) for each in await asyncio.gather(*asked)} == {1 << 20}
            assert made == 60

    run(test)


def test_what_was_written_arrives_before_the_end(run: Run, certified: Certified) -> None:
    heard: list[bytes] = []

    async def test() -> None:
        handlers = Handlers(receive=lambda _peer, body: heard.append(body))
        async with serving(certified.certify("store"), handlers=handlers) as server:
            connection = await call(server, Tls(certified.ca))
            for number in range(100):
                connection.send_now(bytes(10_000) + b"%d" % number)
                await asyncio.sleep(0)
            connection.close()
            await until(lambda: server.connections == ())
            assert [int(each[10_000:]) for each in heard] == list(range(len(heard)))
            assert len(heard) == 100

    run(test)


def test_files_that_cannot_be_used(certified: Certified, tmp_path: Path) -> None:
    good, other = certified.certify("good"), certified.certify("other")
    assert good.certificate and other.certificate
    ServerTls.load(good)
    with pytest.raises(ModelError, match="is not that of the certificate"):
        ServerTls.load(replace(good, key=other.key))
    with pytest.raises(EnvironmentFailure, match=r"cannot read .*nothing"):
        ServerTls.load(replace(good, key=tmp_path / "nothing"))
    with pytest.raises(EnvironmentFailure, match=r"cannot read .*nothing"):
        ServerTls.load(replace(good, certificate=tmp_path / "nothing"))
    with pytest.raises(ModelError, match="has no certificate"):
        ServerTls.load(replace(good, certificate=good.key))
    with pytest.raises(ModelError, match="needs a certificate"):
        ServerTls.load(Tls(certified.ca))
    with pytest.raises(ModelError, match="cannot use the certificate"):
        ServerTls.load(replace(good, key=good.certificate))
    for nothing in ("", "not in PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        with pytest.raises(ModelError, match=r"`ca` under .tls. has no certificate"):
            make_client_context(Tls(nothing))


def test_a_rehearsal_finds_what_a_caller_would(certified: Certified, tmp_path: Path) -> None:
    good = certified.certify("good")
    assert rehearse(good, Tls(certified.ca), "127.0.0.1") > 0
    with pytest.raises(ModelError, match=r"certificate of 10.0.0.1 is not for this address"):
        rehearse(good, good, "10.0.0.1")
    with pytest.raises(ModelError, match="has expired"):
        rehearse(certified.certify("old", period=PAST), good, "127.0.0.1")
    with pytest.raises(ModelError, match="no authority that we trust"):
        rehearse(good, Tls(found(tmp_path / "others").ca), "127.0.0.1")
    strict = certified.certify("strict", client_ca=certified.ca)
    assert rehearse(strict, strict, "127.0.0.1") > 0
    with pytest.raises(ModelError, match="presents no certificate"):
        rehearse(strict, Tls(certified.ca), "127.0.0.1")


def test_a_client_whose_files_are_gone_is_told_and_tries_again(run: Run, certified: Certified) -> None:
    async def test() -> None:
        async with serving(certified.certify("store", client_ca=certified.ca)) as server:
            mine = certified.certify("mine")
            assert mine.key
            text = mine.key.read_text()
            mine.key.unlink()
            with pytest.raises(WireError, match=r"cannot read .*key.pem"):
                await call(server, mine)
            mine.key.write_text(text)
            assert await (await call(server, mine)).request(b"in") == b"in"

    run(test)
