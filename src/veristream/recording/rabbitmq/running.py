"""The RabbitMQ that is recorded: nodes on this machine, with proxies in front of them, or somebody else's.

with local_rabbit(folder, settings) as rabbit:
    queue = rabbit.create_queue("orders")
    channel = rabbit.open(recording, "rabbit-1", "producer-0")
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

import pika
from pika.exceptions import AMQPError

from veristream.brokers.proxy.network import ProxyNetwork
from veristream.brokers.rabbitmq.nodes import RabbitNodes
from veristream.errors import EnvironmentFailure, ModelError
from veristream.history.manifest import Stream
from veristream.recording.rabbitmq.channel import RecordedChannel, record
from veristream.recording.rabbitmq.settings import MIRRORING, Settings
from veristream.recording.recording import Recording

HEARTBEAT_S: Final = 5
CONNECT_S: Final = 5.0
FIND_S: Final = 30.0
READ_S: Final = 120.0
AGAIN_S: Final = 0.2
"""How long to wait before another attempt."""


@dataclass(slots=True)
class RunningRabbit:
    """A RabbitMQ, and how to connect to each of its nodes.

    `nodes` and `network` are those of this machine, if they are. `settings` may change from one recording
    to the next, except those of the broker.
    """

    urls: Mapping[str, str]
    settings: Settings = field(default_factory=Settings)
    nodes: RabbitNodes | None = None
    network: ProxyNetwork | None = None

    @property
    def local(self) -> RabbitNodes:
        """The nodes of this machine, for what only they permit; raises ModelError."""
        if self.nodes is None:
            raise ModelError("this needs nodes that can be stopped and killed", hint="leave out --url")
        return self.nodes

    @property
    def proxies(self) -> ProxyNetwork:
        """The proxies in front of the nodes; raises ModelError if there are none."""
        if self.network is None:
            raise ModelError("this needs proxies in front of the nodes", hint="leave out --url")
        return self.network

    def names(self) -> list[str]:
        """Returns the names of the nodes."""
        return list(self.urls)

    def describe(self) -> dict[str, str]:
        """Returns what a manifest says of the nodes, the queue and the clients."""
        version = {"version": self.nodes.programs.version} if self.nodes is not None else {}
        return {"nodes": str(len(self.urls)), **version, **self.settings.flat()}

    def check(self) -> None:
        """Raises EnvironmentFailure unless a node accepts a connection."""
        self._find(0).close()

    def create_queue(self, recording: Recording, name: str, node: str | None = None) -> str:
        """Declares a new durable queue with the settings, on a node, and returns the name that it got.

        No earlier recording used that name: messages say which producer sent them by its number only.
        """
        queue = f"{name}-{uuid.uuid4().hex[:8]}"
        if self.settings.kind == "mirrored":
            self.local.set_policy(f"mirror-{queue}", f"^{queue}$", {**MIRRORING, **self.settings.policy})
        with self._find(0 if node is None else self.names().index(node)) as connection:
            try:
                connection.channel().queue_declare(queue, durable=True, arguments=self.settings.declared)
            except AMQPError as error:
                raise ModelError(f"RabbitMQ refuses the queue {queue}: {_reason(error)}") from error
        recording.stream(queue, Stream(queue, offsets=False, attempts_max=self.settings.attempts_max))
        return queue

    def open(self, recording: Recording, node: str, name: str) -> RecordedChannel:
        """Returns a new channel to a node, a process of this name; raises what pika raises."""
        channel = pika.BlockingConnection(parameters(self.urls[node])).channel()
        return record(channel, recording, name, node=node, trusting=not self.settings.clients.confirms)

    def producer(self, recording: Recording, node: str, name: str) -> RecordedChannel:
        """Returns a channel that confirms what is published, if the settings say so."""
        channel = self.open(recording, node, name)
        if self.settings.clients.confirms:
            channel.confirm_delivery()
        return channel

    def publish(self, channel: RecordedChannel, queue: str, number: int) -> None:
        """Publishes a message that differs from others; raises what pika raises."""
        clients = self.settings.clients
        body = (b"%d " % number * clients.size)[: clients.size]
        channel.basic_publish("", queue, body, self.settings.properties, clients.confirms)

    def read_to_end(self, recording: Recording, queue: str) -> int:
        """Reads a queue to its end and returns how many messages were left; raises EnvironmentFailure."""
        deadline_s = time.monotonic() + READ_S
        for turn in count():
            connection = self._find(turn)
            channel = record(connection.channel(), recording, "reader-end", node=self._node(turn))
            try:
                found = channel.drain(queue)
                channel.close()
                return found
            except AMQPError as error:
                if time.monotonic() > deadline_s:
                    raise EnvironmentFailure(
                        f"{queue} cannot be read to its end: {_reason(error)}", "see log.txt of the nodes"
                    ) from error
            finally:
                leave(channel)
            time.sleep(AGAIN_S)
        raise AssertionError("count ends")

    def wait_healed(self) -> None:
        """Waits until nodes of this machine are one cluster."""
        if self.nodes is not None:
            self.nodes.wait_for_cluster()

    def _node(self, turn: int) -> str:
        return self.names()[turn % len(self.urls)]

    def _find(self, begin: int) -> pika.BlockingConnection:
        """Connects to the first node that accepts it; raises EnvironmentFailure."""
        deadline_s = time.monotonic() + FIND_S
        for turn in count(begin):
            try:
                return pika.BlockingConnection(parameters(self.urls[self._node(turn)]))
            except (AMQPError, OSError) as error:
                if time.monotonic() > deadline_s or self.nodes is None:
                    raise EnvironmentFailure(
                        f"no RabbitMQ at {', '.join(map(without_password, self.urls.values()))}: "
                        f"{_reason(error)}",
                        "check that it runs, and the user and the password in the URL",
                    ) from error
            time.sleep(AGAIN_S)
        raise AssertionError("count ends")


@contextmanager
def local_rabbit(
    folder: Path, settings: Settings, nodes: int = 3, *, proxied: bool = True
) -> Iterator[RunningRabbit]:
    """Runs nodes in a folder, new or not, until the block is left; they are then stopped."""
    with ExitStack() as stack:
        found = RabbitNodes(folder, settings.broker)
        found.create(nodes)
        addresses = {name: found.address(name) for name in found.nodes()}
        network = stack.enter_context(ProxyNetwork(addresses)) if proxied else None
        stack.enter_context(found)
        found.start()
        found.wait_for_cluster()
        urls = {name: found.url(name) for name in addresses}
        if network is not None:
            urls = {name: url.replace(addresses[name], network.address(name)) for name, url in urls.items()}
        yield RunningRabbit(urls, settings, found, network)


def parameters(url: str) -> pika.URLParameters:
    """Returns how to connect; raises ModelError if that is no URL of RabbitMQ."""
    hint = "write amqp://USER:PASSWORD@HOST:PORT/%2F"
    if not url.startswith(("amqp://", "amqps://")):
        raise ModelError(f"`{without_password(url)}` is no URL of RabbitMQ", hint=hint)
    try:
        found = pika.URLParameters(url)
    except ValueError as error:
        raise ModelError(f"`{without_password(url)}` is no URL of RabbitMQ: {error}", hint=hint) from error
    found.heartbeat = HEARTBEAT_S
    found.socket_timeout = found.stack_timeout = CONNECT_S
    return found


def without_password(url: str) -> str:
    """Returns a URL as it may be shown."""
    head, at, tail = url.rpartition("@")
    scheme, _, who = head.partition("://")
    return f"{scheme}://{who.partition(':')[0]}@{tail}" if at else url


def leave(channel: RecordedChannel) -> None:
    """Ends a channel as it is, and closes its connection if it is still there."""
    channel.abandon()
    try:
        if channel.connection.is_open:
            channel.connection.close()
    except (AMQPError, OSError):
        return


def _reason(error: Exception) -> str:
    """Returns what pika says: an error of a connection has its cause inside."""
    inner = getattr(error.args[0], "exception", None) if error.args else None
    return str(inner or error) or repr(inner or error)
