"""Scenarios on real RabbitMQ, each of which shows what a setting promises, or that it promises less.

    with local_rabbit(folder / "nodes", Settings(clients=Clients(persistent=False)), 1) as rabbit:
        with Recording(folder / "history", "rabbitmq") as recording:
            node_is_killed(rabbit, recording)

All need nodes of this machine, which are one cluster again when a scenario ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

from pika.exceptions import AMQPError

from veristream.brokers.proxy.pieces import DROP, PASS, Decision, Piece
from veristream.errors import EnvironmentFailure
from veristream.recording.faults import Fault, Faults
from veristream.recording.rabbitmq.channel import RecordedChannel
from veristream.recording.rabbitmq.running import RunningRabbit, leave
from veristream.recording.rabbitmq.workloads import make_workload
from veristream.recording.recording import Recording
from veristream.recording.workload import Load, run

PATIENCE_S: Final = 30.0
STILL_S: Final = 0.5
"""How long nothing may come before a consumer believes that it has all that it may have."""
MESSAGES: Final = 100
FEW: Final = 20
KEPT: Final = 10
AFTER: Final = 5


def node_is_killed(rabbit: RunningRabbit, recording: Recording) -> None:
    """Sends messages, kills the queue's node at once (-9), starts it again and reads the queue.

    What was persistent and confirmed is there; what was transient is lost, confirmed or not, and so may be
    what was not confirmed.
    """
    queue, first = _begin(rabbit, recording, "node-is-killed")
    channel = _send(rabbit, recording, queue, MESSAGES)
    with recording.incident("kill", first):
        rabbit.local.kill(first)
        leave(channel)
        rabbit.local.start([first])
    _end(rabbit, recording, queue)


def acknowledgements_are_forgotten(rabbit: RunningRabbit, recording: Recording) -> None:
    """Consumes and acknowledges everything, and kills the node at once: what it forgets comes again."""
    queue, first = _begin(rabbit, recording, "forgotten")
    leave(_send(rabbit, recording, queue, MESSAGES))
    consumer = rabbit.open(recording, first, "consumer-0")
    held = _take(consumer, queue, MESSAGES)
    consumer.basic_ack(held[-1], multiple=True)
    consumer.settle()
    with recording.incident("kill", first):
        rabbit.local.kill(first)
        leave(consumer)
        rabbit.local.start([first])
    _end(rabbit, recording, queue)


def unsynchronised_mirror_leads(rabbit: RunningRabbit, recording: Recording) -> None:
    """Kills the leader of a mirrored queue whose mirrors have only the last messages.

    Mirrors that were killed come back empty (ha-sync-mode is manual), and get only what is sent from then
    on. With ha-promote-on-failure `always`, the default, one of them then replaces the leader, and what it
    has not got is lost, although it was confirmed; `when-synced` waits for the leader instead.
    """
    queue, first = _begin(rabbit, recording, "mirrored")
    nodes, mirrors = rabbit.local, set(rabbit.names()) - {first}
    _wait(lambda: nodes.queues(first)[queue].synchronised >= mirrors, "the mirrors are not in sync")
    leave(_send(rabbit, recording, queue, FEW))
    for name in sorted(mirrors):
        with recording.incident("kill", name):
            nodes.kill(name)
            nodes.start([name])
    nodes.wait_for_cluster()
    _wait(lambda: nodes.queues(first)[queue].copies >= mirrors, "the mirrors are not back")
    channel = _send(rabbit, recording, queue, AFTER)
    with recording.incident("kill", first):
        nodes.kill(first)
        leave(channel)
        if rabbit.settings.policy.get("ha-promote-on-failure", "always") == "always":
            nodes.leader(queue, other_than=first)
        nodes.start([first])
    _end(rabbit, recording, queue)


def leader_is_killed(
    rabbit: RunningRabbit, recording: Recording, seconds: float = 5.0, rate: float = 200.0
) -> None:
    """Kills the leader of a queue while producers and consumers work.

    A quorum queue loses nothing that was confirmed; one of its other nodes takes over.
    """
    queue, _ = _begin(rabbit, recording, "leader-is-killed")
    leader = rabbit.local.leader(queue)
    plan = [Fault("kill", leader, seconds * 0.3, seconds * 0.6)]
    workload = make_workload(rabbit, recording, queue)
    run(recording, workload, Load(seconds, rate), Faults(recording, plan, rabbit.local))


def acknowledgements_are_cut(rabbit: RunningRabbit, recording: Recording) -> None:
    """Cuts a consumer off while acknowledgements of it are under way: those messages come again.

    The first `KEPT` acknowledgements arrive, the others do not.
    """
    queue, first = _begin(rabbit, recording, "cut")
    leave(_send(rabbit, recording, queue, FEW))
    consumer = rabbit.open(recording, first, "consumer-0")
    held = _take(consumer, queue, FEW)
    consumer.basic_ack(held[KEPT - 1], multiple=True)
    consumer.settle()
    over = threading.Event()
    rabbit.proxies.decide = lambda piece: _drop_what_clients_say(piece, over)
    with recording.incident("cut", first):
        over.set()
        for tag in held[KEPT:]:
            consumer.basic_ack(tag)
        rabbit.proxies.cut(first)
        try:
            consumer.settle()
        except AMQPError:
            leave(consumer)
        rabbit.proxies.decide = lambda piece: PASS
        rabbit.proxies.heal(first)
    _end(rabbit, recording, queue)


def messages_are_requeued(rabbit: RunningRabbit, recording: Recording) -> None:
    """Gives every second message back once: it comes again, marked as redelivered."""
    queue, first = _begin(rabbit, recording, "requeued")
    leave(_send(rabbit, recording, queue, FEW))
    consumer = rabbit.open(recording, first, "consumer-0")
    for position, tag in enumerate(_take(consumer, queue, FEW)):
        if position % 2:
            consumer.basic_nack(tag)
        else:
            consumer.basic_ack(tag)
    _close(consumer)
    _end(rabbit, recording, queue)


def prefetch_is_filled(rabbit: RunningRabbit, recording: Recording) -> int:
    """Consumes as much as comes without an answer, then answers, until all has come.

    Returns the most messages that were held at once: as many as the prefetch permits.
    """
    queue, first = _begin(rabbit, recording, "prefetch")
    leave(_send(rabbit, recording, queue, FEW))
    consumer = rabbit.open(recording, first, "consumer-0")
    consumer.basic_qos(prefetch_count=rabbit.settings.clients.prefetch)
    held: list[int] = []
    most = received = 0
    for method, _, _ in consumer.consume(queue, inactivity_timeout=STILL_S):
        if method is not None:
            held.append(method.delivery_tag)
            received += 1
        elif held:
            most = max(most, len(held))
            consumer.basic_ack(held[-1], multiple=True)
            held = []
            if received >= FEW:
                break
    consumer.cancel()
    _close(consumer)
    _end(rabbit, recording, queue)
    return most


def _begin(rabbit: RunningRabbit, recording: Recording, name: str) -> tuple[str, str]:
    """Declares a queue on the first node; returns its name and the node's."""
    recording.workload = recording.workload or name
    recording.settings |= rabbit.describe()
    first = rabbit.local.nodes()[0]
    return rabbit.create_queue(recording, name, first), first


def _send(rabbit: RunningRabbit, recording: Recording, queue: str, messages: int) -> RecordedChannel:
    """Publishes messages on the first node; returns the channel, which is still open."""
    channel = rabbit.producer(recording, rabbit.local.nodes()[0], "producer-0")
    for number in range(messages):
        rabbit.publish(channel, queue, number)
    return channel


def _end(rabbit: RunningRabbit, recording: Recording, queue: str) -> None:
    """Reads the queue to its end, when the nodes are one cluster."""
    rabbit.wait_healed()
    rabbit.read_to_end(recording, queue)
    recording.finish()


def _close(channel: RecordedChannel) -> None:
    channel.close()
    leave(channel)


def _take(channel: RecordedChannel, queue: str, messages: int) -> list[int]:
    """Consumes so many messages without answering; returns their delivery tags."""
    channel.basic_qos(prefetch_count=messages)
    held: list[int] = []

    def hold(_: RecordedChannel, method: Any, __: Any, ___: bytes) -> None:
        held.append(method.delivery_tag)

    channel.basic_consume(queue, hold)

    def all_came() -> bool:
        channel.connection.process_data_events(STILL_S)
        return len(held) >= messages

    _wait(all_came, f"{queue} has fewer than {messages} messages")
    return held


def _drop_what_clients_say(piece: Piece, over: threading.Event) -> Decision:
    return DROP if over.is_set() and piece.direction == "to broker" else PASS


def _wait(is_so: Callable[[], bool], problem: str) -> None:
    """Waits until something is so; raises EnvironmentFailure if that takes too long."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline_s:
            raise EnvironmentFailure(f"{problem} after {PATIENCE_S:.0f} s", "see log.txt of the nodes")
