"""Proxies in front of brokers, on loopback, in a thread of their own.

    with ProxyNetwork({"broker-1": "127.0.0.1:9092"}, KafkaFrames) as network:
        kafka.advertise("broker-1", network.address("broker-1"))
        network.decide = CutOn(Key.PRODUCE)
        network.delay("broker-1", 0.2)
        network.heal("broker-1")

`decide` is asked about every piece that passes. What it lets pass is then subject to `cut`, `delay` and
`drop` of its node.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from veristream.brokers.proxy.pieces import (
    Bytes,
    Change,
    Cut,
    Decide,
    Direction,
    Drop,
    Framing,
    Hold,
    Pass,
    Piece,
    let_pass,
)
from veristream.kabis.wire.ports import HOST, draw_ports

QUEUED: Final = 64
"""How many pieces of a direction wait at most; a sender that is faster has to wait, too."""

Result = TypeVar("Result")


@dataclass(slots=True)
class _Node:
    """A broker behind a proxy, and what is wrong with its network."""

    name: str
    target: str
    port: int
    is_cut: bool = False
    delay_s: float = 0.0
    drops: bool = False
    links: set[_Link] = field(default_factory=set)


class ProxyNetwork:
    """Proxies by the name of the broker; usable while the context is entered, from any thread."""

    def __init__(self, targets: Mapping[str, str], framing: Callable[[], Framing] = Bytes) -> None:
        self.decide: Decide = let_pass
        self._framing = framing
        ports = draw_ports(len(targets)) if targets else []
        self._nodes = {
            name: _Node(name, target, port)
            for (name, target), port in zip(targets.items(), ports, strict=True)
        }
        self._connections = 0
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def address(self, name: str) -> str:
        """Returns where clients reach a broker through its proxy."""
        return f"{HOST}:{self._nodes[name].port}"

    def redirect(self, name: str, target: str) -> None:
        """Changes the address of a broker, for connections from now on."""
        self._nodes[name].target = target

    def connections(self, name: str) -> int:
        """Returns how many connections to a broker are open."""
        return len(self._nodes[name].links)

    def cut_once(self, name: str) -> None:
        """Closes all connections to a broker; clients may connect again at once."""
        self._do(self._close_links(self._nodes[name]))

    def cut(self, name: str) -> None:
        """Closes all connections to a broker, and new ones too, until `heal`."""
        self._nodes[name].is_cut = True
        self.cut_once(name)

    def delay(self, name: str, seconds: float) -> None:
        """Delays everything between a broker and its clients, until `heal`."""
        self._nodes[name].delay_s = seconds

    def drop(self, name: str) -> None:
        """Drops everything that a broker says, until `heal`; its connections stay open."""
        self._nodes[name].drops = True

    def heal(self, name: str) -> None:
        """Ends `cut`, `delay` and `drop`; connections that lack what was dropped are closed."""
        node = self._nodes[name]
        node.is_cut, node.delay_s, node.drops = False, 0.0, False
        self._do(self._close_links(node, only_torn=True))

    def _do(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _listen(self) -> None:
        for node in self._nodes.values():
            accept = partial(self._accept, node)
            self._servers.append(await asyncio.start_server(accept, HOST, node.port))

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for node in self._nodes.values():
            node.is_cut = True
            await self._close_links(node)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for each in others:
            each.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _close_links(self, node: _Node, *, only_torn: bool = False) -> None:
        for link in list(node.links):
            if link.is_torn or not only_torn:
                link.close()

    async def _accept(self, node: _Node, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        if node.is_cut:
            back.transport.abort()
            return
        host, _, port = node.target.rpartition(":")
        try:
            broker, forth = await asyncio.open_connection(host, int(port))
        except OSError:
            back.transport.abort()
            return
        link = _Link(self, node, self._connections, (forth, back))
        self._connections += 1
        node.links.add(link)
        framing = self._framing()
        try:
            await asyncio.gather(
                link.carry("to broker", framing, client, forth),
                link.carry("to client", framing, broker, back),
            )
        except OSError:
            pass  # the other side has gone
        finally:
            link.close()
            node.links.discard(link)


class _Link:
    """One connection of a client, and the one to the broker that belongs to it."""

    def __init__(
        self,
        network: ProxyNetwork,
        node: _Node,
        number: int,
        writers: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
    ) -> None:
        self._network = network
        self._node = node
        self._number = number
        self._writers = writers
        self.is_torn = False

    def close(self) -> None:
        for each in self._writers:
            each.transport.abort()

    async def carry(
        self,
        direction: Direction,
        framing: Framing,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
    ) -> None:
        """Carries one direction to its end; a side that ends is heard of after all that it said before."""
        waiting: asyncio.Queue[tuple[Piece, float] | None] = asyncio.Queue(QUEUED)
        sender = asyncio.create_task(self._send(waiting, target))
        number = 0
        try:
            while (found := await _next(direction, framing, source)) is not None:
                piece = Piece(self._node.name, self._number, direction, number, *found)
                number += 1
                await waiting.put((piece, asyncio.get_running_loop().time()))
            await waiting.put(None)
            await sender
        finally:
            sender.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await sender

    async def _send(
        self, waiting: asyncio.Queue[tuple[Piece, float] | None], target: asyncio.StreamWriter
    ) -> None:
        """Sends what waits; once the connection is cut, takes the rest, so that nobody waits."""
        is_open = True
        while (taken := await waiting.get()) is not None:
            if is_open and (data := await self._passed(*taken)) is not None:
                try:
                    target.write(data)
                    await target.drain()
                except OSError:
                    self.close()
            is_open = not target.is_closing()
        if is_open and target.can_write_eof():
            target.write_eof()

    async def _passed(self, piece: Piece, came_s: float) -> bytes | None:
        """Waits until a piece may go on; returns what goes on, which is None if it does not."""
        due_s = came_s + self._node.delay_s
        data = piece.data
        match self._network.decide(piece):
            case Cut():
                self.close()
                return None
            case Drop():
                self.is_torn = True
                return None
            case Change(other):
                data = other
            case Hold(gate):
                await gate.passed()
            case Pass(after_s):
                due_s += after_s
        if self._node.drops and piece.direction == "to client":
            self.is_torn = True
            return None
        if (late_s := due_s - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(late_s)
        return data


async def _next(direction: Direction, framing: Framing, source: asyncio.StreamReader) -> Any:
    try:
        return await framing.read(direction, source)
    except OSError:  # reset: the same as its end
        return None
