"""A party that Mallory attacks, and how an attack goes on: repeated, in crowds, in floods.

Everything is bounded in count; what is refused is tried again after a pause.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.ordering.requests import Operation, Read
from veristream.kabis.protocol.members import Party
from veristream.kabis.protocol.transactions import Author
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
    access: Access

    @property
    def name(self) -> str:
        """Mallory's own name."""
        return self.author.name

    @property
    def is_validator(self) -> bool:
        """Whether it orders; otherwise it stores."""
        return self.role is Role.VALIDATOR

    @property
    def is_first(self) -> bool:
        """Whether an attack on the whole cluster begins here."""
        return self.party == self.access.genesis.validators[0]

    async def call(self) -> Pipe:
        """Opens a connection, and says nothing."""
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
        """A small request."""
        return bytes((Operation.STATUS if self.is_validator else storage.Operation.STATUS,))

    def large(self, wait_ms: int) -> bytes:
        """A request with a large answer, or one that waits for news."""
        if self.is_validator:
            first = 1 << 40 if wait_ms else 1
            return bytes((Operation.READ,)) + Read(first, 1 << 41, 1 << 30, wait_ms).encode()
        return bytes((storage.Operation.EVIDENCE,)) + storage.AskEvidence("orders").encode()


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """Reads one frame, without its length."""
    async with asyncio.timeout(10):
        return await reader.readexactly(int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big"))


def frame(session: Session, kind: int, number: int, body: bytes = b"") -> bytes:
    """Seals a frame of a kind."""
    return session.seal(bytes((kind,)) + number.to_bytes(8, "big") + body)


async def drop_all(reader: asyncio.StreamReader) -> None:
    """Reads to the end."""
    while await reader.read(MIB):
        pass


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
    """Sends many requests on each connection, and reads no answer."""

    async def ask() -> None:
        (_reader, writer), session = await target.enter()
        writer.write(b"".join(frame(session, 1, number, body) for number in range(requests)))
        await asyncio.sleep(60)
        writer.close()

    await asyncio.gather(*(repeat(ask) for _ in range(connections)))


async def misbehave(target: Target, make: Callable[[Session], bytes]) -> None:
    """Sends what breaks the rules."""

    async def once() -> None:
        (reader, writer), session = await target.enter()
        writer.write(make(session))
        with suppress(ConnectionError):
            await drop_all(reader)
        writer.close()

    await asyncio.gather(*(repeat(once) for _ in range(3)))


async def flood(target: Target, connections: int, make: Callable[[int], bytes]) -> None:
    """Sends requests without a pause, and drops the answers."""

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


def find_targets(folder: ClusterFolder, name: str) -> list[Target]:
    """Returns all parties of a cluster, for the client with this name."""
    access = Access(folder)
    me, author, genesis = access.identity(name, Role.PRODUCER), access.author(name), access.genesis
    validators = [Target(party, Role.VALIDATOR, me, author, access) for party in genesis.validators]
    return validators + [Target(party, Role.STORAGE, me, author, access) for party in genesis.storage]
