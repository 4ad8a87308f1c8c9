"""Faults of queues, each in one subscription; the others deliver what was sent as they should."""

from __future__ import annotations

from dataclasses import replace

from veristream.history.events import Event, Operation, Outcome
from veristream.history.verdicts import Anomaly
from veristream_testing.histories.broker import JOBS, Client, Record, World
from veristream_testing.histories.clients import acknowledge
from veristream_testing.histories.plants.sending import begin_send, record_of


class _Consumer:
    """A consumer of a subscription, which gets the messages of one producer that nobody else gets."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.partition = world.reserve(JOBS)
        self.group = world.random.choice(world.subscriptions)
        self.process = world.recorder.process("consumer")
        self._producer = world.recorder.process("producer")

    def send(self, **fields: int) -> Record:
        """Sends a message, which the queues of other subscriptions store."""
        sent = begin_send(self._world, self._producer, JOBS, self.partition, **fields)
        for group, queue in self._world.jobs[self.partition].items():
            if group != self.group:
                queue.append(record_of(sent))
        self._world.recorder.end(sent)
        return record_of(sent)

    def fail(self) -> Record:
        """Fails to send a message, which no queue stores."""
        sent = begin_send(self._world, self._producer, JOBS, self.partition)
        self._world.recorder.end(sent, Outcome.FAIL)
        return record_of(sent)

    def receive(self, record: Record, call: int | None = None) -> Event:
        """Receives a message."""
        return self._world.deliver(self.process, self.partition, self.group, record, call)

    def acknowledge(self, received: Event) -> None:
        """Acknowledges what was received."""
        self._world.recorder.end(acknowledge(self._world, received))

    def anomaly(self, kind: str, event: Event, *, of_partition: bool) -> None:
        """Says that an event must be found to show an anomaly."""
        fields = {"group": event.group, "process": event.process, "index": event.index}
        if of_partition:
            fields["partition"] = event.partition
        self._world.anomalies.add(Anomaly(kind, stream=JOBS, **fields))


def _at(kind: str, event: Event) -> Anomaly:
    return Anomaly(kind, stream=JOBS, partition=event.partition, process=event.process, index=event.index)


def lost_write(world: World) -> Client:
    """A queue acknowledges a message and loses it."""
    consumer = _Consumer(world)
    yield
    lost = consumer.send()
    fields = {"group": consumer.group, "producer": lost.producer, "number": lost.number}
    world.anomalies.add(Anomaly("lost write", stream=JOBS, partition=consumer.partition, **fields))


def duplicate(world: World) -> Client:
    """A message is delivered twice; `World.deliver` says that this must be found."""
    consumer = _Consumer(world)
    record = consumer.send()
    yield
    consumer.receive(record)
    yield
    consumer.acknowledge(consumer.receive(replace(record, attempt=world.random.choice((1, 2)))))


def nonmonotonic_poll(world: World) -> Client:
    """A process gets the messages of a producer in the wrong order."""
    yield from _swapped_polls(world, "nonmonotonic poll", one_call=False)


def int_nonmonotonic_poll(world: World) -> Client:
    """A process gets two messages of a producer in the wrong order in one call."""
    yield from _swapped_polls(world, "int-nonmonotonic poll", one_call=True)


def _swapped_polls(world: World, kind: str, one_call: bool) -> Client:
    consumer = _Consumer(world)
    one, other = consumer.send(), consumer.send()
    yield
    before = consumer.receive(other)
    yield
    after = consumer.receive(one, before.call if one_call else None)
    world.anomalies.add(_at(kind, after))
    for each in (before, after):
        yield
        consumer.acknowledge(each)


def unexpected(world: World) -> Client:
    """A queue delivers a message whose send failed."""
    consumer = _Consumer(world)
    record = consumer.fail()
    yield
    received = consumer.receive(record)
    message = {"producer": record.producer, "number": record.number}
    world.anomalies.add(Anomaly("unexpected", stream=JOBS, partition=consumer.partition, **message))
    yield
    consumer.acknowledge(received)


def altered(world: World) -> Client:
    """A process gets other bytes than were sent."""
    consumer = _Consumer(world)
    record = consumer.send(digest=world.random.randint(1, 10**9))
    yield
    received = consumer.receive(replace(record, digest=record.digest + 1))
    world.anomalies.add(_at("altered", received))
    yield
    consumer.acknowledge(received)


def leaked(world: World) -> Client:
    """A process that may not read takes a message."""
    consumer = _Consumer(world)
    record = consumer.send()
    yield
    received = consumer.receive(record)
    world.intruders.add((JOBS, consumer.process))
    world.anomalies.add(Anomaly("leaked", stream=JOBS, process=consumer.process))
    yield
    consumer.acknowledge(received)


def overrun(world: World) -> Client:
    """A process gets more messages than it allowed."""
    consumer = _Consumer(world)
    limit = world.random.randint(0, 3)
    of = {"stream": JOBS, "group": consumer.group, "number": limit}
    world.recorder.once(consumer.process, Operation.READY, **of)
    received = []
    for _ in range(limit + 1):
        yield
        received.append(consumer.receive(consumer.send()))
    consumer.anomaly("overrun", received[-1], of_partition=False)
    for each in received:
        yield
        consumer.acknowledge(each)


def too_many_attempts(world: World) -> Client:
    """A message comes again that should have been given up."""
    assert world.attempts_max is not None
    consumer = _Consumer(world)
    record = replace(consumer.send(), attempt=world.attempts_max + 1)
    yield
    received = consumer.receive(record)
    consumer.anomaly("too many attempts", received, of_partition=False)
    yield
    consumer.acknowledge(received)


def zombie_delivery(world: World) -> Client:
    """A message comes again after it was acknowledged, which makes it a duplicate, too."""
    consumer = _Consumer(world)
    record = consumer.send()
    yield
    consumer.acknowledge(consumer.receive(record))
    yield
    again = consumer.receive(replace(record, attempt=2))
    consumer.anomaly("zombie delivery", again, of_partition=True)
