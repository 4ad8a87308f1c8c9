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

import selectors
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Final, Self

from veristream.brokers.proxy.flow import Flow
from veristream.brokers.proxy.loop import Loop
from veristream.brokers.proxy.pieces import Bytes, Decide, Framing, let_pass
from veristream.kabis.wire.ports import HOST, draw_ports

BACKLOG: Final = 128


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
        self.framing = framing
        ports = draw_ports(len(targets)) if targets else []
        self._nodes = {
            name: _Node(name, target, port)
            for (name, target), port in zip(targets.items(), ports, strict=True)
        }
        self._connections = 0
        self.loop = Loop("proxies")
        self._servers: list[socket.socket] = []

    def __enter__(self) -> Self:
        self.loop.start()
        self.loop.run(self._listen)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.loop.run(self._end)
        self.loop.stop()

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
        self.loop.run(partial(self._close_links, self._nodes[name]))

    def cut_connection(self, number: int) -> None:
        """Closes one connection, as pieces number them; one that is gone is no error."""

        def close() -> None:
            for node in self._nodes.values():
                for link in [each for each in node.links if each.number == number]:
                    link.close()

        self.loop.run(close)

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
        self.loop.run(partial(self._close_links, node, only_torn=True))

    def _listen(self) -> None:
        for node in self._nodes.values():
            server = socket.create_server((HOST, node.port), backlog=BACKLOG)
            server.setblocking(False)
            self._servers.append(server)
            self.loop.watch(server, selectors.EVENT_READ, partial(self._accept, node, server))

    def _end(self) -> None:
        for server in self._servers:
            self.loop.watch(server, 0, _ignore)
            server.close()
        for node in self._nodes.values():
            node.is_cut = True
            self._close_links(node)

    def _close_links(self, node: _Node, *, only_torn: bool = False) -> None:
        for link in list(node.links):
            if link.is_torn or not only_torn:
                link.close()

    def _accept(self, node: _Node, server: socket.socket, events: int) -> None:
        try:
            client, _ = server.accept()
        except OSError:  # it has gone again
            return
        if node.is_cut:
            client.close()
            return
        host, _, port = node.target.rpartition(":")
        broker = socket.socket()
        for each in (client, broker):
            each.setblocking(False)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = _Link(self, node, self._connections, (client, broker))
        self._connections += 1
        node.links.add(link)
        try:
            broker.connect((host, int(port)))
        except BlockingIOError:
            pass  # the link waits for it
        except OSError:
            link.close()
            return
        self.loop.watch(broker, selectors.EVENT_WRITE, link.connected)


def _ignore(events: int) -> None:
    pass


class _Link:
    """One connection of a client, and the one to the broker that belongs to it."""

    def __init__(
        self,
        network: ProxyNetwork,
        node: _Node,
        number: int,
        sockets: tuple[socket.socket, socket.socket],
    ) -> None:
        self._network = network
        self._node = node
        self.number = number
        self._client, self._broker = sockets
        framing = network.framing()
        self._forth = Flow(self, "to broker", framing, self._client, self._broker)
        self._back = Flow(self, "to client", framing, self._broker, self._client)
        self._is_closed = False
        self.is_torn = False

    @property
    def node(self) -> str:
        return self._node.name

    @property
    def delay_s(self) -> float:
        return self._node.delay_s

    @property
    def drops(self) -> bool:
        return self._node.drops

    @property
    def decide(self) -> Decide | None:
        """What decides about pieces; None if all may pass unseen."""
        decide = self._network.decide
        return None if decide is let_pass else decide

    def connected(self, events: int) -> None:
        """Begins to carry, once the broker has accepted or refused."""
        if self._broker.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.close()
            return
        self._network.loop.watch(self._broker, 0, _ignore)
        self._update()

    def later(self, when_s: float, what: Callable[[], None]) -> None:
        """Calls something at a time."""
        self._network.loop.at(when_s, partial(self._do, what))

    def soon(self, what: Callable[[], None]) -> None:
        """Calls something in the thread of the proxies; any thread may ask for it."""
        self._network.loop.call(partial(self._do, what))

    def close(self) -> None:
        """Closes both sides."""
        if self._is_closed:
            return
        self._is_closed = True
        self._forth.stop()
        self._back.stop()
        for each in (self._client, self._broker):
            self._network.loop.watch(each, 0, _ignore)
            each.close()
        self._node.links.discard(self)

    def cut_behind(self, flow: Flow) -> None:
        """Closes both sides, but what the flow has sent arrives."""
        other = self._back if flow is self._forth else self._forth
        flow.stop()
        other.become_deaf()
        self._network.loop.watch(flow.source, 0, _ignore)
        with suppress(OSError):
            flow.target.shutdown(socket.SHUT_WR)
        flow.source.close()

    def _do(self, what: Callable[[], None]) -> None:
        """Does something, and then what follows from it; a mistake ends the connection."""
        if self._is_closed:
            return
        try:
            what()
        except BaseException:
            self.close()
            raise
        if self._forth.is_finished and self._back.is_finished:
            self.close()
        elif not self._is_closed:
            self._update()

    def _ready(self, reader: Flow, writer: Flow, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._do(writer.advance)
        if events & selectors.EVENT_READ:
            self._do(reader.read)

    def _update(self) -> None:
        for each, reader, writer in (
            (self._client, self._forth, self._back),
            (self._broker, self._back, self._forth),
        ):
            events = selectors.EVENT_READ if reader.wants_more else 0
            events |= selectors.EVENT_WRITE if writer.has_more else 0
            self._network.loop.watch(each, events, partial(self._ready, reader, writer))
