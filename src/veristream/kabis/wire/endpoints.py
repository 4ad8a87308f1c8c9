"""Servers and clients of authenticated connections: listening, connecting, reconnecting."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any, TypeVar

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.wire.connection import Connection
from veristream.kabis.wire.door import Door
from veristream.kabis.wire.handlers import (
    Answer,
    Attached,
    Authorize,
    ConnectionLostError,
    Handlers,
    Later,
    Limits,
    PeerRefusedError,
    RequestError,
)
from veristream.kabis.wire.handshake import (
    ClientHandshake,
    Identity,
    Peer,
    Role,
    Secrets,
    ServerHandshake,
    WireError,
)
from veristream.kabis.wire.listening import Listening, listen
from veristream.kabis.wire.quotas import Quotas, file_limit
from veristream.kabis.wire.refusals import ASK, call_peer
from veristream.kabis.wire.sides import ClientConnection, ServerConnection
from veristream.kabis.wire.tls import ServerTls, make_client_context
from veristream.kabis.wire.tls_channel import TlsChannel
from veristream.kabis.wire.turns import Turns

__all__ = [
    "Address",
    "Attached",
    "Authorize",
    "Backoff",
    "Client",
    "Connection",
    "ConnectionLostError",
    "Handlers",
    "Identity",
    "Later",
    "Limits",
    "Peer",
    "PeerRefusedError",
    "Quotas",
    "RequestError",
    "Role",
    "Server",
    "WireError",
    "connect",
    "new_event_loop",
    "run",
    "serve",
]

Result = TypeVar("Result")
_RANDOM_BYTES = 64


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a server."""

    host: str
    port: int

    @staticmethod
    def parse(text: str) -> Address:
        """Parses HOST:PORT or [HOST]:PORT. Raises ValueError."""
        host, colon, port = text.rpartition(":")
        if not colon or not host or not port.isdecimal() or int(port) > 65535:
            raise ValueError(f"{text!r} is no address: HOST:PORT")
        return Address(host.removeprefix("[").removesuffix("]"), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Server:
    """A listening socket and the connections behind its door; made by `serve`."""

    def __init__(self, door: Door, authorize: Authorize) -> None:
        self.door = door
        self._authorize = authorize
        self._listening: list[Listening] = []

    @property
    def address(self) -> Address:
        """The address on which it listens, with the port that the system chose."""
        return Address(*self._listening[0].name)

    @property
    def connections(self) -> tuple[ServerConnection, ...]:
        """All connections that are open or opening."""
        return tuple(each for each in self.door.everybody if isinstance(each, ServerConnection))

    def note(self, peer: Peer, limit: str) -> None:
        """Counts that an authorized peer hit a limit of the party behind this server."""
        self.door.refusals.note(call_peer(peer), limit)

    def blame(self, peer: Peer, limit: str) -> None:
        """Counts it too, and slows down a client that does it often."""
        self.door.blame(peer, limit)

    def recheck(self, authorize: Authorize | None = None) -> None:
        """Closes the open connections of peers that are not authorized any more."""
        for connection in self.connections:
            if connection.opened.done() and not connection.closed:
                refusal = (authorize or self._authorize)(connection.peer)
                if refusal is not None:
                    connection.expel(refusal)

    async def close(self) -> None:
        """Stops listening and closes every connection after what was already written."""
        for listening in self._listening:
            listening.close()
        open_now = self.connections
        for connection in open_now:
            connection.close()
        if open_now:
            _done, late = await asyncio.wait([connection.lost for connection in open_now], timeout=2.0)
            for connection in self.connections if late else ():
                connection.abort()
            if late:
                await asyncio.wait(late)


async def serve(
    address: Address,
    identity: Identity,
    authorize: Authorize,
    handlers: Handlers,
    limits: Limits = Limits(),  # noqa: B008 (frozen)
    *,
    encrypt: bool = False,
) -> Server:
    """Listens; every client proves its key, and `authorize` decides whether it is admitted."""
    quotas = limits.quotas
    places = quotas.places(file_limit())
    door = Door(quotas, places, Turns(), asyncio.get_running_loop().time, random.choice)
    served = replace(handlers, answer=partial(_answer, door, handlers.answer))
    server = Server(door, authorize)

    tls = None if identity.tls is None else ServerTls.load(identity.tls)

    def accept() -> asyncio.BaseProtocol:
        secrets = Secrets.draw(os.urandom(_RANDOM_BYTES))
        binding = b"" if tls is None else tls.binding
        handshake = ServerHandshake(identity, secrets, encrypt=encrypt, binding=binding)
        connection = ServerConnection(handshake, authorize, served, limits, door)
        return connection if tls is None else TlsChannel(connection, tls.context)

    try:
        listeners = await listen(address.host, address.port)
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot listen at {address}: {error.strerror}",
            "choose another port, or 0 for any that is free",
        ) from error
    server._listening = [Listening(each, door.knock, accept) for each in listeners]
    return server


async def _answer(door: Door, answer: Answer, peer: Peer, body: bytes) -> bytes | Attached | Later:
    """Tells an admin who hit which limit; all other requests are the party's."""
    if body == ASK and peer.role is Role.ADMIN:
        return door.refusals.report().encode()
    return await answer(peer, body)


class Places:
    """The addresses at which a server may be; whoever does not reach it at one takes the next."""

    def __init__(self, *addresses: str) -> None:
        self._addresses = tuple(dict.fromkeys(filter(None, addresses)))
        self.taken = 0

    def take(self, times: int = 1) -> Address:
        """Returns the next address, each so many times; raises WireError if there is none to use."""
        if not self._addresses:
            raise WireError("no address is known")
        address = self._addresses[self.taken // times % len(self._addresses)]
        self.taken += 1
        try:
            return Address.parse(address)
        except ValueError as error:
            raise WireError(str(error)) from error


async def connect(
    address: Address,
    identity: Identity,
    server: Peer | None,
    handlers: Handlers = Handlers(),  # noqa: B008 (frozen)
    limits: Limits = Limits(),  # noqa: B008 (frozen)
    *,
    encrypt: bool = False,
) -> Connection:
    """Connects to exactly this server, or with None to any. Raises WireError if it is another."""
    secrets = Secrets.draw(os.urandom(_RANDOM_BYTES))
    handshake = ClientHandshake(identity, server, secrets, encrypt=encrypt)
    connection = ClientConnection(handshake, handlers, limits)
    protocol: asyncio.BaseProtocol = connection
    if identity.tls is not None:
        try:
            context = make_client_context(identity.tls)  # anew each time: certificates are renewed
        except (ModelError, EnvironmentFailure) as error:
            raise WireError(error.message) from error
        protocol = TlsChannel(connection, context, address.host)
    try:
        async with asyncio.timeout(limits.handshake_s):
            await asyncio.get_running_loop().create_connection(lambda: protocol, address.host, address.port)
    except (OSError, TimeoutError) as error:
        raise ConnectionLostError(f"nobody answers at {address}: {error}") from error
    try:
        await connection.opened
    except BaseException:
        connection.abort()
        raise
    return connection


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait before reconnecting: twice as long each time, up to a limit, less a random part."""

    first_s: float = 0.05
    last_s: float = 5.0

    def wait_s(self, failures: int, random: float) -> float:
        """Returns the wait after this many failures in a row; `random` is in [0, 1)."""
        longest = min(self.last_s, self.first_s * (1 << min(failures - 1, 30)))
        return longest * (1 - random / 2)


class Client:
    """Stays connected to one server: reconnects when the connection ends, with increasing waits."""

    def __init__(
        self,
        call: Callable[[], Coroutine[Any, Any, Connection]],
        random: Callable[[], float],
        backoff: Backoff = Backoff(),
    ) -> None:
        self._call = call
        self._random = random
        self._backoff = backoff
        self._connection: Connection | None = None
        self._connected = asyncio.Event()
        self.problem: WireError | None = None
        self._task = asyncio.get_running_loop().create_task(self._stay_connected())

    async def _stay_connected(self) -> None:
        failures = 0
        while True:
            try:
                self._connection = await self._call()
            except WireError as error:
                self.problem = error
                failures += 1
                await asyncio.sleep(self._backoff.wait_s(failures, self._random()))
                continue
            failures, self.problem = 0, None
            self._connected.set()
            await asyncio.shield(self._connection.lost)
            self._connected.clear()

    @property
    def connected(self) -> bool:
        """Whether a request would be sent at once."""
        return self._connected.is_set()

    async def request(self, body: bytes, timeout_s: float) -> bytes:
        """Sends a request once, as soon as there is a connection, and returns the answer.

        Raises TimeoutError if it does not arrive in time; `problem` then says why there is no connection.
        """
        async with asyncio.timeout(timeout_s):
            await self._connected.wait()
            assert self._connection is not None
            return await self._connection.request(body)

    async def exchange(self, body: bytes | Attached, timeout_s: float) -> bytes | Attached:
        """As `request`, where something may be attached to the request or to the answer."""
        async with asyncio.timeout(timeout_s):
            await self._connected.wait()
            assert self._connection is not None
            return await self._connection.exchange(body)

    def send_now(self, body: bytes) -> bool:
        """Sends a message, or drops it and returns False if there is no connection or nobody reads."""
        connection = self._connection
        return connection is not None and self._connected.is_set() and connection.send_now(body)

    async def close(self) -> None:
        """Closes the connection for good."""
        self._task.cancel()
        await asyncio.wait([self._task])
        if self._connection is not None and not self._connection.closed:
            self._connection.close()
            await asyncio.wait([self._connection.lost], timeout=2.0)


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Runs a program's main coroutine."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Makes an event loop, uvloop's if that is installed, because it sends without a copy."""
    if find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()
