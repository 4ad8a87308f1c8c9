"""A server under attack over loopback: half-open callers, greedy identities, peers that do not read."""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
from dataclasses import replace
from typing import Any

import pytest

from tests.kabis.wire.test_endpoints import (
    CLIENT,
    LOOPBACK,
    SERVER,
    Run,
    call,
    echo,
    expect_end,
    open_raw,
    open_session,
    request,
    run,
    serving,
    until,
)
from veristream.kabis.protocol.keys import make_key
from veristream.kabis.wire import listening
from veristream.kabis.wire.connection import Handlers, Later, Limits, PeerRefusedError, RequestError
from veristream.kabis.wire.endpoints import Identity, Quotas, Server, serve
from veristream.kabis.wire.handshake import Peer, Role
from veristream.kabis.wire.quotas import file_limit, raise_file_limit
from veristream.kabis.wire.refusals import ASK, Refused

__all__ = ["run"]  # the fixture

ADMIN = Identity("chain", Role.ADMIN, "admin", make_key(b"a" * 32))
MIB = 1 << 20


def refusals_of(server: Server) -> dict[tuple[str, str], int]:
    return {(each.who, each.limit): each.count for each in server.door.refusals.report().refusals}


def test_half_open_callers_are_few_and_others_get_in(run: Run) -> None:
    async def test() -> None:
        limits = Limits(handshake_s=30.0, quotas=Quotas(half_open_per_address=10))
        async with serving(limits=limits) as server:
            good = await call(server)
            raw = [await open_raw(server) for _ in range(60)]
            await until(lambda: len(server.connections) <= 11)
            other = await call(server)
            assert await good.request(b"1") == b"1" and await other.request(b"2") == b"2"
            assert refusals_of(server)[("address 127.0.0.1", "half-open connections")] >= 50
            for _reader, writer in raw:
                writer.close()

    run(test)


def test_the_same_identity_again_and_again_is_refused_and_told_so(run: Run) -> None:
    async def test() -> None:
        async with serving(limits=Limits(quotas=Quotas(connections_per_identity=3))) as server:
            connections = [await call(server) for _ in range(3)]
            with pytest.raises(PeerRefusedError, match="producer alice has 3 connections, the most"):
                await call(server)
            assert await connections[0].request(b"still") == b"still"
            connections[1].close()
            await until(lambda: len(server.connections) == 2)
            assert await (await call(server)).request(b"again") == b"again"
            assert refusals_of(server) == {("producer alice", "connections"): 1}

    run(test)


def test_connections_never_take_the_files_reserved_for_logs(run: Run) -> None:
    async def test() -> None:
        reserved = file_limit() - 80
        quotas = Quotas(files_reserved=reserved, half_open_max=1000, half_open_per_address=1000)
        async with serving(limits=Limits(quotas=quotas)) as server:
            good = [await call(server) for _ in range(5)]
            raw = [await open_raw(server) for _ in range(300)]
            await until(lambda: ("address 127.0.0.1", "half-open connections") in refusals_of(server))
            await until(lambda: len(server.connections) <= 80 // 4 + 5)
            assert await (await call(server)).request(b"in") == b"in"
            assert [await each.request(b"here") for each in good] == [b"here"] * 5
            for _reader, writer in raw:
                writer.close()

    run(test)


class Exhausted:
    """A listening socket for which the system has no file, some times."""

    def __init__(self, true: socket.socket, failures: list[int]) -> None:
        self.true = true
        self.failures = failures

    def accept(self) -> Any:
        if self.failures:
            raise OSError(self.failures.pop(0), "no more")
        return self.true.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.true, name)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ECONNABORTED])
def test_a_server_accepts_again_after_the_system_refused(
    run: Run, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "FIRST_WAIT_S", 0.01)
    failures = [number] * 3

    async def test() -> None:
        async with serving() as server:
            heard = server._listening[0]
            heard._listener = Exhausted(heard._listener, failures)  # type: ignore[assignment]
            assert await (await call(server)).request(b"in") == b"in"
            assert failures == []

    run(test)


def test_all_that_wait_for_the_same_news_do_not_answer_at_once(run: Run) -> None:
    made = 0

    async def test() -> None:
        news = asyncio.Event()
        waiting = 0

        def make() -> bytes:
            nonlocal made
            made += 1
            return bytes(4 * MIB)

        async def answer(_peer: Peer, _body: bytes) -> Later:
            nonlocal waiting
            waiting += 1
            await news.wait()
            return Later(make)

        async with serving(Handlers(answer), Limits(stall_s=600.0)) as server:
            (_reader, writer), session = await open_session(server)
            writer.write(b"".join(request(session, number, b"more") for number in range(250)))
            await until(lambda: waiting == 250)
            news.set()
            await until(lambda: made > 0)
            for _ in range(100):
                await asyncio.sleep(0.001)
            assert server.connections[0].unsent_bytes < 9 * MIB
            assert made < 10, "the others wait until the peer reads"
            writer.close()
            await until(lambda: server.connections == ())

    run(test)


def test_answers_that_nobody_reads_are_bounded_for_all_connections_of_an_identity(run: Run) -> None:
    async def large(_peer: Peer, _body: bytes) -> bytes:
        return bytes(4 * MIB)

    async def test() -> None:
        quotas = Quotas(unsent_bytes_per_identity=20 * MIB)
        async with serving(Handlers(large), Limits(stall_s=600.0, quotas=quotas)) as server:
            streams = []
            for _ in range(20):
                stream, session = await open_session(server)
                streams.append(stream)
                stream[1].write(b"".join(request(session, number, b"more") for number in range(20)))
            await until(lambda: ("producer alice", "unread answers") in refusals_of(server))
            for _ in range(50):
                await asyncio.sleep(0.001)
            unsent = sum(each.unsent_bytes for each in server.connections)
            assert unsent < 20 * MIB + 5 * MIB
            for _reader, writer in streams:
                writer.close()
            await until(lambda: server.connections == ())

    run(test)


def test_frames_that_never_end_are_bounded_for_an_identity(run: Run) -> None:
    async def test() -> None:
        quotas = Quotas(request_bytes_per_identity=8 * MIB)
        async with serving(limits=Limits(quotas=quotas)) as server:
            streams = [(await open_session(server))[0] for _ in range(8)]
            share = server.connections[0]._share
            assert share is not None
            for _reader, writer in streams:
                writer.write((4 * MIB).to_bytes(4, "big") + bytes(3 * MIB))
            await until(lambda: ("producer alice", "broken rules of the wire") in refusals_of(server))
            assert server.connections and share.frame_bytes <= 8 * MIB
            for _reader, writer in streams:
                writer.close()
            await until(lambda: server.connections == ())

    run(test)


def test_who_is_not_authorized_any_more_has_to_leave(run: Run) -> None:
    ended: set[str] = set()

    def authorize(peer: Peer) -> str | None:
        return "the key has ended" if peer.name in ended else None

    async def test() -> None:
        server = await serve(LOOPBACK, SERVER, authorize, Handlers(echo), Limits())
        first, second = await call(server), await call(server, replace(CLIENT, name="bob"))
        ended.add("alice")
        server.recheck()
        await asyncio.wait_for(first.lost, 30)
        assert await second.request(b"here") == b"here"
        with pytest.raises(PeerRefusedError, match="the key has ended"):
            await call(server)
        assert refusals_of(server) == {
            ("producer alice", "ended key"): 1,
            ("address 127.0.0.1", "refused key"): 1,
        }
        await server.close()

    run(test)
    ended.clear()


def test_only_an_admin_is_told_who_hit_which_limit(run: Run) -> None:
    async def refuse(_peer: Peer, _body: bytes) -> bytes:
        raise RequestError("unknown kind of request")

    async def test() -> None:
        server = await serve(LOOPBACK, SERVER, lambda _peer: None, Handlers(refuse), Limits())
        reader, writer = await open_raw(server)
        writer.write(b"\xff" * 100)
        await expect_end(reader)
        writer.close()
        admin = await call(server, ADMIN)
        told = Refused.decode(await admin.request(ASK))
        assert [(each.who, each.limit, each.count) for each in told.refusals] == [
            ("address 127.0.0.1", "bad handshake", 1)
        ]
        with pytest.raises(RequestError, match="unknown kind"):
            await (await call(server)).request(ASK)
        await server.close()

    run(test)


def test_the_limit_of_open_files_is_raised_as_far_as_the_system_allows() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lower = max(64, soft // 2)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lower, hard))
    try:
        raised = raise_file_limit()
        assert raised == file_limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0] > lower
        assert raise_file_limit() == raised
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("kind", [2, 5, 6])
def test_frames_that_are_no_requests_are_few(run: Run, kind: int) -> None:
    async def test() -> None:
        async with serving(limits=Limits(quotas=Quotas(requests_per_s=50.0))) as server:
            (_reader, writer), session = await open_session(server)
            writer.write(b"".join(session.seal(bytes((kind,)) + bytes(8)) for _ in range(30)))
            other = await call(server)
            assert await other.request(b"in") == b"in"
            assert len(server.connections) == 2
            writer.write(b"".join(session.seal(bytes((kind,)) + bytes(8)) for _ in range(1000)))
            await until(lambda: len(server.connections) == 1)
            assert refusals_of(server) == {("producer alice", "broken rules of the wire"): 1}
            writer.close()

    run(test)


def test_answers_to_the_same_news_are_made_in_turn(run: Run) -> None:
    """Somebody with many connections does not make one with a single connection wait for all of them."""
    made: list[str] = []

    async def test() -> None:
        news, waiting = asyncio.Event(), 0

        async def answer(peer: Peer, _body: bytes) -> Later:
            nonlocal waiting
            waiting += 1
            await news.wait()
            return Later(lambda: made.append(peer.name) or b"")  # type: ignore[func-returns-value]

        server = await serve(LOOPBACK, SERVER, lambda _peer: None, Handlers(answer), Limits())
        crowd = [await call(server) for _ in range(5)]
        bob = await call(server, Identity("chain", Role.CONSUMER, "bob", make_key(b"b" * 32)))
        asked = [asyncio.ensure_future(each.request(b"")) for each in crowd for _ in range(10)]
        await until(lambda: waiting == 50)
        asked.append(asyncio.ensure_future(bob.request(b"")))
        await until(lambda: waiting == 51)
        news.set()
        await asyncio.gather(*asked)
        assert made.index("bob") <= 2
        await server.close()

    run(test)
    made.clear()


def test_who_breaks_the_rules_does_not_come_again_at_once(run: Run) -> None:
    async def test() -> None:
        async with serving(limits=Limits(quotas=Quotas(ban_s=600.0))) as server:
            (reader, writer), _session = await open_session(server)
            writer.write((0xFFFFFFFF).to_bytes(4, "big"))
            await expect_end(reader)
            writer.close()
            with pytest.raises(PeerRefusedError, match="producer alice broke the rules of the wire"):
                await call(server)

    run(test)


def test_a_client_sends_shorter_frames_than_a_party(run: Run) -> None:
    async def test() -> None:
        limits = Limits(client_frame_bytes_max=1000)
        server = await serve(LOOPBACK, SERVER, lambda _peer: None, Handlers(echo), limits)
        assert await (await call(server, ADMIN)).request(bytes(2000)) == bytes(2000)
        assert await (await call(server)).request(bytes(1000)) == bytes(1000)
        (reader, writer), _session = await open_session(server)
        writer.write((2000).to_bytes(4, "big"))
        await expect_end(reader)
        writer.close()
        assert refusals_of(server) == {("producer alice", "broken rules of the wire"): 1}
        await server.close()

    run(test)


def test_past_its_rate_of_answers_an_identity_waits_and_nobody_else(run: Run) -> None:
    async def answer_later(_peer: Peer, body: bytes) -> Later:
        return Later(lambda: body)

    async def test() -> None:
        limits = Limits(quotas=Quotas(answer_bytes_per_s=0.1))
        server = await serve(LOOPBACK, SERVER, lambda _peer: None, Handlers(answer_later), limits)
        greedy, admin = await call(server), await call(server, ADMIN)
        assert await greedy.request(bytes(100)) == bytes(100)
        waiting = asyncio.ensure_future(greedy.request(b"more"))
        for _ in range(5):
            assert await admin.request(bytes(100)) == bytes(100)
        await until(lambda: ("producer alice", "rate of answers") in refusals_of(server))
        assert not waiting.done()
        waiting.cancel()
        await server.close()

    run(test)
