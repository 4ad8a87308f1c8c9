"""RabbitMQ's clients of a replay: publishers and consumers that are called from outside."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import pika
from pika.exceptions import AMQPError

from veristream.recording.rabbitmq.channel import RecordedChannel, record
from veristream.recording.rabbitmq.running import RunningRabbit, leave, parameters
from veristream.recording.recording import Recording
from veristream.replay.caller import Caller
from veristream.replay.course import Answer

VERBS: Final = ("publish", "publish again", "receive", "acknowledge", "requeue")
"""The calls of a client, as tables name them."""

POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Place:
    """Where clients work: a queue on a node, and what is recorded; a step waits `seconds`."""

    rabbit: RunningRabbit
    recording: Recording
    node: str
    queue: str
    seconds: float

    def connect(self, name: str) -> RecordedChannel:
        """Opens a channel on a connection of its own, which has this name at the proxy.

        It has no heartbeats: models have no connection that breaks because a run takes its time.
        """
        found = parameters(self.rabbit.urls[self.node])
        found.heartbeat = 0
        found.client_properties = {"connection_name": name}
        confirms = self.rabbit.settings.clients.confirms
        channel = pika.BlockingConnection(found).channel()
        return record(channel, self.recording, name, node=self.node, trusting=not confirms)


class Client:
    """A process of the model; its publisher and its consumer connect when they are first called."""

    def __init__(self, name: str, place: Place) -> None:
        self._caller = Caller()
        self._publisher = _Publisher(name, place)
        self._consumer = _Consumer(name, place)

    @property
    def is_consuming(self) -> bool:
        """Whether messages may be with it."""
        return self._consumer.channel is not None

    @property
    def acknowledged(self) -> int:
        """How many messages it acknowledged."""
        return self._consumer.acknowledged

    def call(self, verb: str, arguments: tuple[str, ...]) -> None:
        """Begins a call; its argument, if any, is the number of a message."""
        number = int(arguments[0]) if arguments else None
        self._caller.call(partial(_outcome, partial(self._do, verb, number)))

    def wait_returned(self, seconds: float) -> Answer | None:
        """Returns how the last call ended; None if it is still running after so long."""
        return self._caller.wait_returned(seconds)

    def close(self) -> None:
        """Publishes again what was not confirmed, if the client waits for confirms, and ends it."""
        self._caller.close(self._publisher.finish, self._consumer.finish)

    def _do(self, verb: str, number: int | None) -> Answer:
        match verb:
            case "publish":
                return self._publisher.publish()
            case "publish again":
                assert number is not None, "publish again needs a message"
                return self._publisher.publish_again(number)
            case "receive":
                return self._consumer.receive(number)
            case "acknowledge":
                return self._consumer.acknowledge()
            case "requeue":
                return self._consumer.requeue()
            case _:
                raise AssertionError(f"a client of RabbitMQ has no call `{verb}`")


@dataclass(slots=True)
class _Publisher:
    name: str
    place: Place
    channel: RecordedChannel | None = None
    _next: int = 0
    _unconfirmed: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The messages that are not known to have arrived, with what the history calls them."""

    def publish(self) -> Answer:
        channel = self._open()
        number, self._next = self._next, self._next + 1
        self._unconfirmed[number] = channel.journal.process, channel.published
        self._send(channel, number)
        return Answer("", told=f"message {number} is published")

    def publish_again(self, number: int) -> Answer:
        channel = self._open()
        channel.send_again(*self._unconfirmed[number])
        self._send(channel, number)
        return Answer("", told=f"message {number} is published again")

    def finish(self) -> None:
        """Publishes again what it has to; a message that is refused then is lost for certain."""
        if self.place.rabbit.settings.clients.confirms:
            for number in sorted(self._unconfirmed):
                self.publish_again(number)
        self._leave()

    def _send(self, channel: RecordedChannel, number: int) -> None:
        try:
            self.place.rabbit.publish(channel, self.place.queue, number)
        except AMQPError:
            self._leave()
            raise
        if self.place.rabbit.settings.clients.confirms:
            del self._unconfirmed[number]

    def _open(self) -> RecordedChannel:
        if self.channel is None:
            self.channel = self.place.connect(self.name)
            if self.place.rabbit.settings.clients.confirms:
                self.channel.confirm_delivery()
        return self.channel

    def _leave(self) -> None:
        if self.channel is not None:
            leave(self.channel)
            self.channel = None


@dataclass(slots=True)
class _Consumer:
    name: str
    place: Place
    channel: RecordedChannel | None = None
    acknowledged: int = 0
    _came: Iterator[tuple[Any, Any, bytes | None]] = field(default_factory=lambda: iter(()))
    _held: deque[int] = field(default_factory=deque)
    """The delivery tags of what the application has, in the order in which it came."""

    def receive(self, number: int | None) -> Answer:
        """Takes what comes next; that has to be the message of this number, if one is given."""
        self._subscribe()
        deadline_s = time.monotonic() + self.place.seconds
        while time.monotonic() < deadline_s:
            method, _, body = next(self._came)
            if method is None or body is None:
                continue
            self._held.append(method.delivery_tag)
            came = int(body.split()[0])
            told = f"message {came} came{' again' if method.redelivered else ''}"
            return Answer("" if number in (None, came) else "another message", told=told)
        return Answer("nothing", told=f"nothing came for {self.place.seconds:g} s")

    def acknowledge(self) -> Answer:
        tag = self._held.popleft()
        assert self.channel is not None, "what was received came through a channel"
        self.channel.basic_ack(tag)
        self.channel.settle()
        self.acknowledged += 1
        return Answer("", told="RabbitMQ has the acknowledgement")

    def requeue(self) -> Answer:
        tag = self._held.popleft()
        assert self.channel is not None, "what was received came through a channel"
        self.channel.basic_nack(tag, requeue=True)
        self.channel.settle()
        return Answer("", told="RabbitMQ has the message back")

    def finish(self) -> None:
        """Gives back what it has, and ends."""
        if self.channel is not None:
            with suppress(AMQPError):
                self.channel.close()
            leave(self.channel)

    def _subscribe(self) -> None:
        if self.channel is None:
            self.channel = self.place.connect(self.name)
            self.channel.basic_qos(prefetch_count=self.place.rabbit.settings.clients.prefetch)
            self._came = self.channel.consume(self.place.queue, inactivity_timeout=POLL_S)


def _outcome(work: Callable[[], Answer]) -> Answer:
    begin_s = time.monotonic()
    try:
        found = work()
    except AMQPError as failure:
        found = Answer(type(failure).__name__, told=f"it ended with {type(failure).__name__}")
    return Answer(found.error, time.monotonic() - begin_s, found.told)
