"""What `veristream record rabbitmq` lets clients do: they go on whatever happens to the nodes.

A client that loses its connection comes back on another node, as a new process of the history: it is a new
channel, which knows nothing of what the old one held.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from pika.exceptions import AMQPError, NackError, UnroutableError

from veristream.recording.rabbitmq.channel import RecordedChannel
from veristream.recording.rabbitmq.running import AGAIN_S, RunningRabbit, leave
from veristream.recording.recording import Recording
from veristream.recording.workload import Load, Watch, Work, Workload

POLL_S: Final = 0.1
SETTLE_S: Final = 0.25
"""How often a consumer asks for an answer that shows that its acknowledgements have arrived."""


def make_workload(
    rabbit: RunningRabbit,
    recording: Recording,
    queue: str,
    watch: Watch = lambda seconds: None,
) -> Workload:
    """Returns producers and consumers of a queue; in the end, a reader empties it."""

    def read() -> None:
        rabbit.wait_healed()
        rabbit.read_to_end(recording, queue)

    clients: dict[str, Work] = {}
    for number in range(rabbit.settings.clients.producers):
        clients[f"producer-{number}"] = _producer(rabbit, recording, queue, number)
    for number in range(rabbit.settings.clients.consumers):
        clients[f"consumer-{number}"] = _consumer(rabbit, recording, queue, number)
    return Workload(clients, read, watch)


def _producer(rabbit: RunningRabbit, recording: Recording, queue: str, number: int) -> Work:
    def work(load: Load) -> None:
        beats = load.beats(rabbit.settings.clients.producers)

        def publish(channel: RecordedChannel) -> None:
            if rabbit.settings.clients.confirms:
                channel.confirm_delivery()
            for beat in beats:
                try:
                    rabbit.publish(channel, queue, beat)
                except (NackError, UnroutableError):
                    load.wait(AGAIN_S)  # the queue's node is gone

        _keep_working(rabbit, recording, load, (f"producer-{number}", number), publish)

    return work


def _consumer(rabbit: RunningRabbit, recording: Recording, queue: str, number: int) -> Work:
    def work(load: Load) -> None:
        def consume(channel: RecordedChannel) -> None:
            _Consumer(rabbit.settings.clients.requeue_every).run(
                channel, queue, rabbit.settings.clients.prefetch, load
            )

        _keep_working(rabbit, recording, load, (f"consumer-{number}", number), consume)

    return work


class _Consumer:
    """Consumes a queue on one channel, and acknowledges what it receives."""

    def __init__(self, requeue_every: int) -> None:
        self._requeue_every = requeue_every
        self._received = 0

    def run(self, channel: RecordedChannel, queue: str, prefetch: int, load: Load) -> None:
        """Works until the load is over, or RabbitMQ cancels it: then the queue's node is gone."""
        channel.basic_qos(prefetch_count=prefetch)
        tag = channel.basic_consume(queue, self._receive)
        settled_s = time.monotonic()
        while not load.is_over and tag in channel.consumer_tags:
            channel.connection.process_data_events(POLL_S)
            if time.monotonic() - settled_s >= SETTLE_S:
                channel.settle()
                settled_s = time.monotonic()

    def _receive(self, channel: RecordedChannel, method: Any, _: Any, __: bytes) -> None:
        self._received += 1
        every = self._requeue_every
        if every and not method.redelivered and self._received % every == 0:
            channel.basic_nack(method.delivery_tag)
            return
        channel.basic_ack(method.delivery_tag)


def _keep_working(
    rabbit: RunningRabbit,
    recording: Recording,
    load: Load,
    who: tuple[str, int],
    work: Callable[[RecordedChannel], None],
) -> None:
    """Gives `work` a channel, and another one on the next node whenever it ends, until the load is over."""
    name, turn = who
    nodes = rabbit.names()
    while not load.is_over:
        channel = None
        try:
            channel = rabbit.open(recording, nodes[turn % len(nodes)], name)
            work(channel)
            channel.close()
        except (AMQPError, OSError):
            load.wait(AGAIN_S)
        finally:
            turn += 1
            if channel is not None:
                leave(channel)
