"""Clients of nsqd that write journals: every message is one that they know again.

    with Recording(folder, "nsq") as recording:
        nsq = NsqRecorder(recording)
        publisher = nsq.publisher(Node("nsqd-1", "127.0.0.1:4150"), "orders")
        publisher.publish(b"body")
        consumer = nsq.consumer(Node("nsqd-1", "127.0.0.1:4150"), "orders", "billing")
        consumer.ready(5)
        while (message := consumer.receive(1.0)) is not None:
            consumer.finish(message)

Each nsqd has a queue of its own for each topic and channel: the number of the node is the partition, the
topic is the stream, the channel is the group. Each connection of a consumer is a process, since RDY belongs
to a connection. `docs/recording-nsq.md` says what each event is taken from.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import Final

from veristream.brokers.nsq import protocol
from veristream.brokers.nsq.connection import NO_HEARTBEAT, Connection, Refused
from veristream.brokers.nsq.protocol import Message, Refusal, Response
from veristream.errors import ModelError
from veristream.history.events import Operation
from veristream.history.identity import decode_payload, encode_payload
from veristream.history.manifest import Stream
from veristream.recording.digest import digest
from veristream.recording.journal import Call, Fields, Journal
from veristream.recording.nsq.settling import Pending, Settling
from veristream.recording.recording import Recording

FENCE_EVERY: Final = 32
"""After so many commands without an answer comes a fence; one comes also before waiting for messages."""

SETTLE_S: Final = 5.0
MSG_TIMEOUT_MS: Final = 60_000
"""How long nsqd waits for a FIN unless told otherwise."""

NO_EFFECT: Final = frozenset(
    {
        "E_INVALID",
        "E_BAD_TOPIC",
        "E_BAD_BODY",
        "E_BAD_MESSAGE",
        "E_AUTH_FIRST",
        "E_AUTH_FAILED",
        "E_UNAUTHORIZED",
    }
)
"""The errors by which nsqd refuses PUB and MPUB before it queues anything."""

_EXITING: Final = "exiting"
"""The end of E_PUB_FAILED and E_MPUB_FAILED if the topic was going; others come from a disk that failed."""


@dataclass(frozen=True, slots=True)
class Node:
    """An nsqd: its name in the recording, its address, and that of its HTTP interface if it is needed."""

    name: str
    address: str
    http: str = ""


class NsqRecorder:
    """Makes clients that write to a recording.

    `msg_timeout_ms` is what nsqd runs with. nsqd has no limit of attempts; with `attempts_max`, the audit
    reports deliveries above it.
    """

    def __init__(
        self, recording: Recording, msg_timeout_ms: int = MSG_TIMEOUT_MS, attempts_max: int | None = None
    ) -> None:
        self.recording = recording
        self._attempts_max = attempts_max
        # nsqd counts from when it sent a message, which may be before the client read it: half of the
        # time is certainly not over before, since a consumer that reads later goes on as another process.
        self.reading_ns = msg_timeout_ms * 1_000_000 // 2

    def stream(self, topic: str) -> int:
        """Returns the number of a topic."""
        description = Stream(topic, False, None, self._attempts_max, self.reading_ns)
        return self.recording.stream(topic, description)

    def place(self, node: Node, topic: str) -> Fields:
        """Returns what all events at a topic of a node have in common."""
        number = self.recording.node(node.name)
        return {"stream": self.stream(topic), "partition": number, "node": number}

    def publisher(self, node: Node, topic: str, name: str = "publisher") -> Publisher:
        """Returns a publisher, which connects when it first publishes."""
        return Publisher(self, node, topic, f"{name}@{node.name}")

    def consumer(self, node: Node, topic: str, channel: str, name: str = "consumer") -> Consumer:
        """Returns a consumer that has subscribed; raises OSError or Refused."""
        return Consumer(self, node, topic, channel, f"{name}@{node.name}")


class Publisher:
    """Publishes messages to one nsqd, one command after the other; connects again after a failure."""

    def __init__(self, recorder: NsqRecorder, node: Node, topic: str, name: str) -> None:
        self.journal = recorder.recording.journal(name)
        self.node = node
        self.topic = topic
        self._fields = recorder.place(node, topic)
        self._connection: Connection | None = None
        self._next = 0

    def publish(self, *bodies: bytes) -> bool:
        """Publishes messages with PUB, or several with MPUB; says whether nsqd answered OK."""
        if not bodies:
            raise ValueError("nothing to publish")
        payloads = [
            encode_payload(self.journal.process, self._next + place, body)
            for place, body in enumerate(bodies)
        ]
        calls = [self._invoke(payload) for payload in payloads]
        try:
            if self._connection is None:
                self._connection = Connection(self.node.address, NO_HEARTBEAT)
        except (OSError, Refused) as error:  # nothing was sent
            for call in calls:
                self.journal.fail(call, _tell(error))
            return False
        try:
            if len(payloads) == 1:
                self._connection.publish(self.topic, payloads[0])
            else:
                self._connection.publish_many(self.topic, payloads)
        except (OSError, Refused) as error:
            self._disconnect()
            end = self.journal.fail if _had_no_effect(error) else self.journal.indefinite
            for call in calls:
                end(call, _tell(error))
            return False
        for call in calls:
            self.journal.ok(call)
        return True

    def close(self) -> None:
        """Ends the publisher."""
        self._disconnect()
        self.journal.note(Operation.CLOSE)

    def _invoke(self, payload: bytes) -> Call:
        number, self._next = self._next, self._next + 1
        fields: Fields = {
            **self._fields,
            "producer": self.journal.process,
            "number": number,
            "digest": digest(payload),
        }
        return self.journal.invoke(Operation.SEND, **fields)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Consumer:
    """A connection that is subscribed to a channel of a topic at one nsqd.

    An OSError or a Refused that a method raises ends the consumer; `close` it, and make another one.
    `fields` are what its events have in common. `journal` may change when a message is received.
    """

    def __init__(self, recorder: NsqRecorder, node: Node, topic: str, channel: str, name: str) -> None:
        self.node = node
        self.topic = topic
        self.channel = channel
        self._name = name
        self._recorder = recorder
        self._connection = Connection(node.address)
        try:
            self._connection.subscribe(topic, channel)
        except BaseException:
            self._connection.close()
            raise
        group = recorder.recording.group(channel)
        self.fields: Fields = {**recorder.place(node, topic), "group": group}
        self._settling = Settling()
        self._delivered: deque[_Arrived] = deque()  # read, and not handed out yet
        self._ready = 0
        self._closed = False
        self.journal = self._begin()

    def ready(self, count: int) -> None:
        """Allows so many messages in flight (RDY)."""
        most = self._connection.features.get("max_rdy_count")
        if isinstance(most, int) and not 0 <= count <= most:
            raise ModelError(
                f"nsqd refuses RDY {count}", hint=f"use 0 to {most}, or start nsqd with --max-rdy-count"
            )
        self._ready = count
        self._note_ready()
        self._connection.send(protocol.ready(count))

    def receive(self, timeout_s: float) -> Message | None:
        """Returns the next message, None after the timeout."""
        deadline_s = time.monotonic() + timeout_s
        found = self._delivered.popleft() if self._delivered else self._next(0)
        if found is None:
            if self._settling.unfenced:
                self._fence()
            found = self._next(deadline_s - time.monotonic())
        if found is None:
            return None
        self._notice_stall(found.since_ns)
        message = found.message
        fields: Fields = {
            **self._named(message),
            "digest": digest(message.body),
            "attempt": message.attempts,
        }
        self.journal.note(Operation.RECEIVE, **fields)
        return message

    def finish(self, message: Message) -> None:
        """Says that a message was processed (FIN); nsqd says so only if it cannot take it."""
        self._answer(Operation.ACKNOWLEDGE, "FIN", message, protocol.finish(message.id))

    def requeue(self, message: Message, delay_ms: int = 0) -> None:
        """Gives a message back (REQ)."""
        self._answer(Operation.REJECT, "REQ", message, protocol.requeue(message.id, delay_ms))

    def settle(self, patience_s: float = SETTLE_S) -> bool:
        """Waits until it is known of each FIN and REQ whether nsqd executed it; says whether it is."""
        if self._settling.unfenced:
            self._fence()
        deadline_s = time.monotonic() + patience_s
        while self._settling.unsettled and (left_s := deadline_s - time.monotonic()) > 0:
            arrived = self._next(left_s, until_settled=True)
            if arrived is not None:
                self._delivered.append(arrived)
        return not self._settling.unsettled

    def close(self) -> None:
        """Ends the consumer; FIN and REQ that were not settled are indefinite."""
        if not self._closed:
            self._closed = True
            self._connection.close()
            self._settling.abandon("the connection was closed before an answer")
            self.journal.note(Operation.CLOSE)

    def _begin(self) -> Journal:
        return self._recorder.recording.journal(self._name, member_of=self.fields["group"])

    def _note_ready(self) -> None:
        self.journal.note(
            Operation.READY, stream=self.fields["stream"], group=self.fields["group"], number=self._ready
        )

    def _fence(self) -> None:
        self._settling.fence()
        self._connection.send(protocol.touch(protocol.FENCE))

    def _answer(self, operation: Operation, word: str, message: Message, command: bytes) -> None:
        if self._settling.is_unfenced(message.id) or self._settling.unfenced >= FENCE_EVERY:
            self._fence()
        call = self.journal.invoke(operation, **self._named(message))
        self._settling.add(Pending(self.journal, call, word, message.id))
        self._connection.send(command)

    def _named(self, message: Message) -> Fields:
        producer, number = decode_payload(message.body)
        return {**self.fields, "producer": producer, "number": number}

    def _next(self, timeout_s: float, *, until_settled: bool = False) -> _Arrived | None:
        """Reads until a message comes; None after the timeout, or once all is settled if asked for."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            match self._connection.receive(deadline_s - time.monotonic()):
                case None:
                    return None
                case Message() as message:
                    return _Arrived(message, self._connection.since_ns)
                case Refusal() as refusal:
                    if not self._settling.take(refusal):
                        raise Refused(refusal)
                    if until_settled and not self._settling.unsettled:
                        return None
                case Response():  # nothing that a subscribed consumer sends has one
                    pass

    def _notice_stall(self, since_ns: int) -> None:
        """Goes on as another process if a message may have waited here for long since it was sent.

        nsqd may no longer count it, and what it sent before, as in flight.
        """
        if time.monotonic_ns() - since_ns > self._recorder.reading_ns:
            self.journal.note(Operation.CLOSE)
            self.journal = self._begin()
            if self._ready:
                self._note_ready()


@dataclass(frozen=True, slots=True)
class _Arrived:
    """A message, and a time since when it may have waited to be handed out."""

    message: Message
    since_ns: int


def _had_no_effect(error: OSError | Refused) -> bool:
    return isinstance(error, Refused) and code_has_no_effect(error.code, error.text)


def code_has_no_effect(code: str, text: str) -> bool:
    """Whether nsqd refused PUB or MPUB before it queued anything."""
    return code in NO_EFFECT or text.endswith(_EXITING)


def _tell(error: Exception) -> str:
    return str(error) or type(error).__name__
