"""Mallory, who is registered: attacks on every party of a cluster, each as a process of its own.

    python -m tests.kabis.mallory.mallory FOLDER ATTACK

It prints a line when the attack goes on, and attacks until its input ends. Everything is bounded in count;
what is refused is tried again after a pause.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.ordering.requests import Operation, Read
from veristream.kabis.protocol.actions import JoinGroup
from veristream.kabis.protocol.batch import Stream, build_batch
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.protocol.genesis import Party
from veristream.kabis.protocol.keys import make_key
from veristream.kabis.protocol.records import encode_leaf
from veristream.kabis.protocol.transactions import Author, sign_action
from veristream.kabis.storage import messages as storage
from veristream.kabis.wire.handshake import (
    LENGTH_BYTES,
    ClientHandshake,
    Identity,
    Peer,
    Role,
    Secrets,
    Session,
    WireError,
    prefix,
)

NAME = "mallory"
PAUSE_S = 0.05
MIB = 1 << 20
FAILED = (OSError, WireError, asyncio.IncompleteReadError, TimeoutError)

Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Target:
    """A party, and who attacks it."""

    party: Party
    role: Role
    me: Identity
    author: Author

    @property
    def is_validator(self) -> bool:
        return self.role is Role.VALIDATOR

    async def call(self) -> Pipe:
        host, _, port = self.party.address.rpartition(":")
        return await asyncio.open_connection(host, int(port))

    async def enter(self, me: Identity | None = None) -> tuple[Pipe, Session]:
        """Proves a key; returns a stream whose frames are ours to send as we please."""
        reader, writer = await self.call()
        server = Peer(self.role, self.party.name, self.party.public)
        ours = ClientHandshake(me or self.me, server, Secrets.draw(os.urandom(64)))
        writer.write(prefix(ours.hello))
        proof, session = ours.finish(await read_frame(reader))
        writer.write(prefix(proof))
        if session.open(await read_frame(reader))[0] != 7:
            writer.close()
            raise WireError("refused")
        return (reader, writer), session

    @property
    def status(self) -> bytes:
        return bytes((Operation.STATUS if self.is_validator else storage.Operation.STATUS,))

    def large(self, wait_ms: int) -> bytes:
        """A request with a large answer, or one that waits for news."""
        if self.is_validator:
            first = 1 << 40 if wait_ms else 1
            return bytes((Operation.READ,)) + Read(first, 1 << 41, 1 << 30, wait_ms).encode()
        return bytes((storage.Operation.EVIDENCE,)) + storage.AskEvidence("orders").encode()


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(10):
        return await reader.readexactly(int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big"))


def frame(session: Session, kind: int, number: int, body: bytes = b"") -> bytes:
    return session.seal(bytes((kind,)) + number.to_bytes(8, "big") + body)


async def drop_all(reader: asyncio.StreamReader) -> None:
    while await reader.read(MIB):
        pass


# Attacks on connections


async def half_open(target: Target) -> None:
    """Connects, says nothing, and comes again when it is cut off."""
    await crowd(target, 300, target.call)


async def slow_loris(target: Target) -> None:
    """Sends a hello one byte at a time."""

    async def drip() -> None:
        _reader, writer = await target.call()
        for byte in prefix(bytes(2000)):
            writer.write(bytes((byte,)))
            await writer.drain()
            await asyncio.sleep(PAUSE_S)

    await asyncio.gather(*(repeat(drip) for _ in range(100)))


async def garbage(target: Target) -> None:
    """Sends random bytes instead of a handshake."""

    async def shout() -> None:
        reader, writer = await target.call()
        writer.write(os.urandom(500))
        await drop_all(reader)
        writer.close()

    await asyncio.gather(*(repeat(shout) for _ in range(10)))


async def strangers(target: Target) -> None:
    """Proves keys that nobody registered."""

    async def come() -> None:
        await target.enter(
            Identity(target.me.chain_id, Role.PRODUCER, "producer", make_key(os.urandom(32)))
        )

    await asyncio.gather(*(repeat(come) for _ in range(10)))


async def impostor(target: Target) -> None:
    """Claims to be a validator, with the key of a client."""

    async def come() -> None:
        await target.enter(replace(target.me, role=Role.VALIDATOR, name="validator-1"))

    await asyncio.gather(*(repeat(come) for _ in range(10)))


async def all_connections(target: Target) -> None:
    """Takes all the connections that it can get, and keeps them."""
    await crowd(target, 200, target.enter)


async def churn(target: Target) -> None:
    """Enters and leaves."""

    async def visit() -> None:
        (_reader, writer), _session = await target.enter()
        writer.close()

    await asyncio.gather(*(repeat(visit) for _ in range(5)))


# Attacks within a session


async def slow_readers(target: Target) -> None:
    """Asks for much, and reads nothing."""
    await unread(target, 20, 250, target.large(0))


async def waiting_readers(target: Target) -> None:
    """Waits for the same news many times, and reads nothing."""
    await unread(target, 10, 250, target.large(30_000))


async def oversized(target: Target) -> None:
    """Announces frames of four gigabytes."""
    await misbehave(target, lambda _session: (0xFFFFFFFF).to_bytes(4, "big") + bytes(1000))


async def forged(target: Target) -> None:
    """Sends frames that are not sealed."""
    await misbehave(target, lambda _session: prefix(os.urandom(100)))


async def replayed(target: Target) -> None:
    """Sends a frame twice."""
    await misbehave(target, lambda session: 2 * frame(session, 1, 1, target.status))


async def votes(target: Target) -> None:
    """Sends messages, as only validators do."""
    await misbehave(target, lambda session: frame(session, 4, 0, b"vote"))


async def pings(target: Target) -> None:
    """Pings without end, and reads no pong."""
    await misbehave(target, lambda session: b"".join(frame(session, 5, 0) for _ in range(20_000)))


async def unfinished(target: Target) -> None:
    """Begins large frames, and ends none."""

    async def begin() -> None:
        (reader, writer), _session = await target.enter()
        writer.write((15 * MIB).to_bytes(4, "big") + bytes(14 * MIB))
        await drop_all(reader)
        writer.close()

    await asyncio.gather(*(repeat(begin) for _ in range(10)))


async def request_flood(target: Target) -> None:
    """Asks for the status, again and again."""
    await flood(target, 4, lambda _number: target.status)


async def junk_flood(target: Target) -> None:
    """Asks for what does not exist, and submits what is no transaction."""
    await flood(target, 4, lambda _number: b"\x01" + os.urandom(300))


async def phantoms(target: Target) -> None:
    """Has batches of topics stored that do not exist."""

    async def store() -> None:
        (reader, writer), session = await target.enter()
        dropping = asyncio.ensure_future(drop_all(reader))
        try:
            for number in range(100):
                stream = Stream(target.me.chain_id, f"phantom-{number}", 0, NAME, 0)
                leaf = encode_leaf(None, os.urandom(100_000))
                batch = build_batch(stream, 0, ZERO_DIGEST, [leaf], target.author.signer)
                head = frame(session, 9, number, bytes((storage.Operation.STORE,)) + batch.digest())
                writer.write(head + prefix(batch.encode()))
                await writer.drain()
        finally:
            dropping.cancel()
            writer.close()

    await repeat(store)


async def join_spam(target: Target) -> None:
    """Joins a new group with each request."""

    def join(_number: int) -> bytes:
        if not target.is_validator:
            return target.status
        now_ns = time.time_ns()
        action = JoinGroup(f"group-{now_ns}", "instance", ("orders",), 30_000)
        return bytes((Operation.SUBMIT,)) + sign_action(target.author, now_ns, action).encode()

    await flood(target, 1, join)


ATTACKS: tuple[Callable[[Target], Awaitable[None]], ...] = (
    *(half_open, slow_loris, garbage, strangers, impostor, all_connections, churn),
    *(slow_readers, waiting_readers, oversized, forged, replayed, votes, pings, unfinished),
    *(request_flood, junk_flood, phantoms, join_spam),
)


# How attacks go on


async def repeat(attack: Callable[[], Awaitable[object]]) -> None:
    """Does it again and again, with a pause after each time."""
    while True:
        with suppress(*FAILED):
            await attack()
        await asyncio.sleep(PAUSE_S)


async def crowd(target: Target, size: int, come: Callable[[], Awaitable[object]]) -> None:
    """Opens connections and keeps them; a few more come all the time."""
    kept: list[object] = []
    for _ in range(size):
        with suppress(*FAILED):
            kept.append(await come())
    await repeat(come)


async def unread(target: Target, connections: int, requests: int, body: bytes) -> None:
    async def ask() -> None:
        (_reader, writer), session = await target.enter()
        writer.write(b"".join(frame(session, 1, number, body) for number in range(requests)))
        await asyncio.sleep(60)
        writer.close()

    await asyncio.gather(*(repeat(ask) for _ in range(connections)))


async def misbehave(target: Target, make: Callable[[Session], bytes]) -> None:
    async def once() -> None:
        (reader, writer), session = await target.enter()
        writer.write(make(session))
        with suppress(ConnectionError):
            await drop_all(reader)
        writer.close()

    await asyncio.gather(*(repeat(once) for _ in range(3)))


async def flood(target: Target, connections: int, make: Callable[[int], bytes]) -> None:
    async def pour() -> None:
        (reader, writer), session = await target.enter()
        dropping = asyncio.ensure_future(drop_all(reader))
        try:
            for number in count():
                writer.write(frame(session, 1, number, make(number)))
                await writer.drain()
                if number % 100 == 0:
                    await asyncio.sleep(0)
                if dropping.done():
                    return
        finally:
            dropping.cancel()
            writer.close()

    await asyncio.gather(*(repeat(pour) for _ in range(connections)))


def find_targets(folder: ClusterFolder) -> list[Target]:
    access = Access(folder)
    me, author, genesis = access.identity(NAME, Role.PRODUCER), access.author(NAME), access.genesis
    validators = [Target(party, Role.VALIDATOR, me, author) for party in genesis.validators]
    return validators + [Target(party, Role.STORAGE, me, author) for party in genesis.storage]


async def go(folder: ClusterFolder, attack: Callable[[Target], Awaitable[None]]) -> None:
    tasks = [asyncio.ensure_future(attack(target)) for target in find_targets(folder)]
    await asyncio.sleep(1.0)
    sys.stdout.write("going\n")
    sys.stdout.flush()
    await asyncio.gather(*tasks)


def end_when_alone() -> None:
    """Whoever started us is gone when our input ends."""
    while os.read(0, 1024):
        pass
    os._exit(0)


def main(folder: str, name: str) -> None:
    """Attacks until the input ends."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    threading.Thread(target=end_when_alone, daemon=True).start()
    chosen = {each.__name__: each for each in ATTACKS}[name]
    asyncio.run(go(ClusterFolder(Path(folder)), chosen))


if __name__ == "__main__":
    main(*sys.argv[1:])
