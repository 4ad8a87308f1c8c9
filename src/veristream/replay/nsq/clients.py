"""NSQ's clients of a replay: publishers, consumers and operators that are called from outside."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from veristream.brokers.nsq import interface
from veristream.brokers.nsq.connection import Refused
from veristream.brokers.nsq.protocol import Message
from veristream.errors import ModelError
from veristream.history.identity import decode_payload
from veristream.recording.nsq.clients import Consumer, Node, NsqRecorder, Publisher
from veristream.replay.caller import Caller
from veristream.replay.course import Answer

VERBS: Final = (
    "publish",
    "subscribe",
    "receive",
    "finish",
    "requeue",
    "delete topic",
    "set tombstone",
    "look up",
)
"""The calls of a client, as tables name them."""

READY: Final = 1
"""How many messages a consumer allows in flight while it waits for one; otherwise it allows no more."""

QUIET_S: Final = 0.1
POLL_S: Final = 0.02


@dataclass(slots=True)
class Looked:
    """What a lookup was answered, and how long after the last tombstone that was; None without one."""

    process: str
    found: tuple[str, ...]
    after_s: float | None


@dataclass(slots=True)
class Place:
    """Where clients work: a topic at an nsqd and at nsqlookupd; a step waits `seconds`."""

    recorder: NsqRecorder
    node: Node
    lookup: str
    topic: str
    seconds: float
    looked: list[Looked] = field(default_factory=list)
    hidden_s: float | None = None
    """When an operator set a tombstone."""

    def entry(self) -> bool | None:
        """Returns whether nsqlookupd hides the nsqd from consumers of the topic; None without an entry."""
        found = interface.read_registered(self.lookup, self.node.http)
        return None if found is None else found.hidden.get(self.topic)


class Client:
    """A process of the model; what it needs is opened when it is first called."""

    def __init__(self, name: str, place: Place) -> None:
        self.name = name
        self.channel = channel_of(name)
        self._place = place
        self._caller = Caller()
        self._publisher: Publisher | None = None
        self._consumer: Consumer | None = None
        self._has: Message | None = None
        self._published = 0

    @property
    def is_subscribed(self) -> bool:
        """Whether it made its channel exist."""
        return self._consumer is not None

    def call(self, verb: str, arguments: tuple[str, ...]) -> None:
        """Begins a call; the argument of `receive` is the number of the message that has to come."""
        self._caller.call(partial(_outcome, partial(self._do, verb, arguments)))

    def wait_returned(self, seconds: float) -> Answer | None:
        """Returns how the last call ended; None if it is still running after so long."""
        return self._caller.wait_returned(seconds)

    def close(self) -> None:
        """Gives back what the client has, and ends it."""
        self._caller.close(self._finish)

    def _do(self, verb: str, arguments: tuple[str, ...]) -> Answer:
        match verb:
            case "publish":
                return self._publish()
            case "subscribe":
                return self._subscribe()
            case "receive":
                return self._receive(int(arguments[0]) if arguments else None)
            case "finish" | "requeue":
                return self._answer(verb)
            case "delete topic":
                interface.delete_topic(self._place.node.http, self._place.topic)
                return Answer("", told=f"{self._place.node.name} deletes the topic")
            case "set tombstone":
                return self._hide()
            case "look up":
                return self._look_up()
            case _:
                raise AssertionError(f"a client of NSQ has no call `{verb}`")

    def _publish(self) -> Answer:
        place = self._place
        if self._publisher is None:
            self._publisher = place.recorder.publisher(place.node, place.topic, self.name)
        number, self._published = self._published, self._published + 1
        if not self._publisher.publish(b""):
            return Answer("refused", told=f"{place.node.name} did not take message {number}")
        return Answer("", told=f"{place.node.name} has message {number}")

    def _subscribe(self) -> Answer:
        place = self._place
        self._consumer = place.recorder.consumer(place.node, place.topic, self.channel, self.name)
        return Answer("", told=f"{self.name} consumes {self.channel}")

    def _receive(self, number: int | None) -> Answer:
        assert self._consumer is not None, "who receives has subscribed"
        self._consumer.ready(READY)
        message = self._consumer.receive(self._place.seconds)
        self._consumer.ready(0)
        if message is None:
            return Answer("nothing", told=f"nothing came for {self._place.seconds:g} s")
        self._has = message
        _, came = decode_payload(message.body)
        told = f"message {came} came{' again' if message.attempts > 1 else ''}"
        return Answer("" if number in (None, came) else "another message", told=told)

    def _answer(self, verb: str) -> Answer:
        assert self._consumer is not None and self._has is not None, "there is something to answer"
        (self._consumer.finish if verb == "finish" else self._consumer.requeue)(self._has)
        self._has = None
        is_settled = self._consumer.settle(self._place.seconds)
        return Answer("" if is_settled else None, told="nsqd has executed it" if is_settled else "")

    def _hide(self) -> Answer:
        """Sets the tombstone once there is an entry that can have one."""
        place = self._place
        deadline_s = time.monotonic() + place.seconds
        while place.entry() is None:
            if time.monotonic() > deadline_s:
                return Answer("no entry", told="nsqlookupd has no entry of the topic")
            time.sleep(POLL_S)
        interface.set_tombstone(place.lookup, place.topic, place.node.http)
        place.hidden_s = time.monotonic()
        return Answer("", told="nsqlookupd sets the tombstone")

    def _look_up(self) -> Answer:
        place = self._place
        found = tuple(each.address for each in interface.look_up(place.lookup, place.topic))
        after_s = None if place.hidden_s is None else time.monotonic() - place.hidden_s
        place.looked.append(Looked(self.name, found, after_s))
        told = f"nsqlookupd names {', '.join(found) or 'nobody'}"
        return Answer("" if found else "nobody", told=told)

    def _finish(self) -> None:
        if self._publisher is not None:
            self._publisher.close()
        if self._consumer is not None:
            with suppress(OSError, Refused):
                self._give_back(self._consumer)
            self._consumer.close()

    def _give_back(self, consumer: Consumer) -> None:
        """Gives back what it has and what is under way to it: nsqd would wait for an answer."""
        if self._has is not None:
            consumer.requeue(self._has)
        consumer.settle()
        while (message := consumer.receive(QUIET_S)) is not None:
            consumer.requeue(message)
        consumer.settle()


def channel_of(process: str) -> str:
    """Returns the name of the channel of a process: `Channel(1)` has channel-1."""
    return process.lower().replace("(", "-").rstrip(")")


def _outcome(work: Callable[[], Answer]) -> Answer:
    begin_s = time.monotonic()
    try:
        found = work()
    except (OSError, Refused, ModelError) as failure:
        found = Answer(str(failure) or type(failure).__name__, told=f"it failed: {failure}")
    return Answer(found.error, time.monotonic() - begin_s, found.told)
