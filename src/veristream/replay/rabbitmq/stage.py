"""The stage of RabbitMQ: publishers and consumers behind a proxy that holds what the run decides about."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from pika import BlockingConnection
from pika.adapters.blocking_connection import BlockingChannel

from veristream.brokers.proxy.pieces import let_pass
from veristream.brokers.proxy.steering import Steering
from veristream.brokers.rabbitmq.frames import AmqpFrames, Method
from veristream.recording.rabbitmq.running import RunningRabbit, parameters
from veristream.recording.recording import Recording
from veristream.replay.course import Answer, Held
from veristream.replay.order import HANDLED
from veristream.replay.outcome import Evidence
from veristream.replay.rabbitmq.clients import VERBS, Client, Place
from veristream.replay.wire import Kind, Wire
from veristream.replay.words import Words

PUBLISH: Final = "Publish"
KINDS: Final[Mapping[str, Kind]] = {
    PUBLISH: Kind(Method.PUBLISH),
    "Confirm": Kind(Method.ACK, "to client"),
}
"""The methods that tables name: basic.publish, and the basic.ack that confirms it."""

WORDS: Final = Words("RabbitMQ", VERBS, tuple(KINDS), ("cut",), (HANDLED,))
"""What tables may say of RabbitMQ."""

POLL_S: Final = 0.02
MARGIN_S: Final = 2.0
"""How much longer than what it waits for a call takes."""


@dataclass(slots=True)
class RabbitStage:
    """What `course.execute` steers; `observe` then reads what came of it."""

    place: Place
    wire: Wire
    asking: BlockingChannel
    """A channel of nobody in the model, past the proxy."""
    clients: dict[str, Client] = field(default_factory=dict)
    _stored: int = 0

    def call(self, process: str, verb: str, arguments: Sequence[str]) -> None:
        """Begins a call of the process's client; the argument, if any, is the number of a message."""
        self.clients[process].call(verb, tuple(arguments))

    def take_held(self, process: str, kind: str) -> Held | None:
        """Waits until a message of a kind of the process's client is held that was not taken before."""
        return self.wire.take(process, kind, self.place.seconds)

    def deliver(self, held: Held) -> Answer | None:
        """Lets a message go on; one that was published has to come to the queue."""
        if self.wire.wait_gone(held, self.place.seconds) is None:
            return None
        if held.kind != PUBLISH:
            return Answer("", told="the client gets it")
        self._stored += 1
        return Answer("", told="it is in the queue") if self._wait_stored() else None

    def wait_returned(self, process: str) -> Answer | None:
        """Waits until the call that the process began ends."""
        return self.clients[process].wait_returned(self.place.seconds + MARGIN_S)

    def do(self, what: str, process: str, arguments: Sequence[str]) -> str:
        """Cuts the connection of the process's client; what waits on it is lost.

        A publisher that waits for no confirms has written its message, and takes it for done, before.
        """
        connections = self.wire.connections(process)
        if not connections:
            return f"{process} has no connection"
        if not self.place.rabbit.settings.clients.confirms and self.wait_returned(process) is None:
            return f"the call of {process} does not return"
        self.place.rabbit.proxies.cut_connection(connections[-1])
        return ""

    def explain(self) -> str:
        """Says what passed and what waits, and to whom RabbitMQ has sent messages."""
        sent = Counter(
            each.header.request.client
            for each in self.wire.steering.passed
            if each.header is not None and each.header.request.key == Method.DELIVER
        )
        told = ", ".join(f"{number} to {client}" for client, number in sorted(sent.items())) or "none"
        return f"{self.wire.explain()}; RabbitMQ delivered: {told}"

    def observe(self) -> Evidence:
        """Lets all go on, ends the clients, and reads the queue to its end."""
        self.wire.release_all()
        for each in self.clients.values():
            each.close()
        left = self.place.rabbit.read_to_end(self.place.recording, self.place.queue)
        return Evidence(f"in the end, the queue had {left} message{'' if left == 1 else 's'}")

    def _wait_stored(self) -> bool:
        """Waits until the queue has all that it was given and nobody acknowledged."""
        deadline_s = time.monotonic() + self.place.seconds
        while self._count() < self._stored - sum(each.acknowledged for each in self.clients.values()):
            if time.monotonic() > deadline_s:
                return False
            time.sleep(POLL_S)
        return True

    def _count(self) -> int:
        """Returns how many messages the queue has, those that consumers have included."""
        if any(each.is_consuming for each in self.clients.values()):
            return self.place.rabbit.local.queues(self.place.node)[self.place.queue].messages
        return int(self.asking.queue_declare(self.place.queue, passive=True).method.message_count)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a run needs: clients, by their processes; how many messages of each it holds, if any."""

    processes: tuple[str, ...]
    held: Mapping[tuple[str, str], int]


@contextmanager
def on_stage(
    rabbit: RunningRabbit, recording: Recording, shape: Shape, seconds: float
) -> Iterator[RabbitStage]:
    """Declares a queue, and holds what the run decides about; a step waits `seconds`."""
    node = rabbit.names()[0]
    place = Place(rabbit, recording, node, rabbit.create_queue(recording, "replay", node), seconds)
    wire = Wire(Steering(recording), KINDS, shape.held)
    network, framing = rabbit.proxies, rabbit.proxies.framing
    direct = parameters(rabbit.local.url(node))
    direct.heartbeat = 0
    with BlockingConnection(direct) as connection:
        stage = RabbitStage(place, wire, connection.channel())
        stage.clients.update({each: Client(each, place) for each in shape.processes})
        network.framing, network.decide = AmqpFrames, wire.steering
        try:
            yield stage
        finally:
            wire.release_all()
            network.framing, network.decide = framing, let_pass
