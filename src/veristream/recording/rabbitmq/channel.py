"""A pika channel that keeps a journal of what its user did with it and learnt.

    with Recording(folder, "rabbitmq") as recording:
        channel = record(connection.channel(), recording, "billing")
        channel.confirm_delivery()
        channel.basic_publish("", "orders", b"one")
        ...
        recording.finish()

| AMQP | in the history |
| --- | --- |
| publish, confirmed | `SEND`, ok |
| publish, returned as unroutable | `SEND`, fail |
| publish, nack | `SEND`, indefinite: RabbitMQ could not say that it has the message, and may have it |
| publish, and the channel ends first | `SEND`, indefinite |
| publish without confirms | `SEND`, indefinite; ok once it is written if the channel is `trusting` |
| deliver, get | `RECEIVE`, `attempt` from x-delivery-count, else 2 if redelivered |
| ack; nack or reject without requeue | `ACKNOWLEDGE`, see `settle` for its outcome |
| nack or reject with requeue, recover | `REJECT`, the same |
| prefetch | `READY` for each queue that is consumed |
| a queue read until it is empty (`drain`) | `READ_TO_END` |

A message's number is in its header `veristream-id`. Messages of the default exchange are in the stream of
their queue; others are in the stream EXCHANGE/KEY, for which every queue is a group.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Self

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError, NackError, UnroutableError

from veristream.errors import EnvironmentFailure, ModelError
from veristream.history.events import NONE, Operation
from veristream.history.identity import HEADER, encode
from veristream.history.manifest import Stream
from veristream.recording.digest import digest
from veristream.recording.journal import Call, Fields, Journal
from veristream.recording.rabbitmq.deliveries import (
    DEAD,
    Deliveries,
    Delivery,
    attempt_of,
    identify,
    place_of,
)
from veristream.recording.rabbitmq.limits import Limits
from veristream.recording.recording import Recording

QUIET_S: Final = 0.5
"""How long a queue must be empty to have been read to its end."""
LOOK_S: Final = 0.05
DRAIN_PATIENCE_S: Final = 60.0
Callback = Callable[["RecordedChannel", Any, Any, bytes], None]


def record(
    channel: BlockingChannel,
    recording: Recording,
    name: str = "client",
    *,
    node: str = "",
    trusting: bool = False,
) -> RecordedChannel:
    """Wraps a channel; what is done with it from now on is recorded as a process of this name.

    Without confirms, a `trusting` client takes a message for sent as soon as it is written. `node` is the
    name of the broker that it is connected to.
    """
    return RecordedChannel(channel, recording, recording.journal(name), node=node, trusting=trusting)


class RecordedChannel:
    """A pika `BlockingChannel` that is recorded; it has all of its methods, and `settle` and `drain`.

    Like pika's, it belongs to one thread. Dead-lettered messages are not recorded: they were sent to
    another queue. AMQP transactions are refused, since nothing in a history says what they promise.
    """

    def __init__(
        self,
        channel: BlockingChannel,
        recording: Recording,
        journal: Journal,
        *,
        node: str = "",
        trusting: bool = False,
    ) -> None:
        self.channel = channel
        self.journal = journal
        self._recording = recording
        self._node = recording.node(node) if node else NONE
        self._trusting = trusting
        # Its user may have asked for confirms before.
        self._confirms = bool(getattr(channel, "_delivery_confirmation", False))
        self.published = 0
        """How many messages it published first, which is the number of the next one."""
        self._again: tuple[int, int] | None = None
        self._deliveries = Deliveries(journal)
        self._limits = Limits()
        self._tags: dict[str, str] = {}  # the queue of each consumer
        self._yielded: str | None = None  # the queue of `consume`
        self._places: dict[str, set[str]] = {}  # the streams that a queue gets messages of, besides its own
        self._over = False

    def __getattr__(self, name: str) -> Any:
        """Returns what is not recorded from pika's channel."""
        if name.startswith("tx_"):
            raise ModelError("transactions of AMQP cannot be recorded", hint="use confirm_delivery()")
        return getattr(self.channel, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.close()
        except AMQPError:
            self.abandon()

    # -- sending

    def confirm_delivery(self) -> None:
        """Asks RabbitMQ to confirm what is published from now on."""
        with self._watched():
            self.channel.confirm_delivery()
        self._confirms = True

    def send_again(self, producer: int, number: int) -> None:
        """Says that the next message to be published was sent before, by this process or another one.

        It is then the same message of the history: if both arrive, it is there twice.
        """
        self._again = producer, number

    def basic_publish(
        self,
        exchange: str,
        routing_key: str,
        body: bytes,
        properties: pika.BasicProperties | None = None,
        mandatory: bool = False,
    ) -> None:
        """Publishes as pika does, with the header that says which message it is; raises what it raises."""
        producer, number = self._name()
        call = self.journal.invoke(
            Operation.SEND,
            stream=self._stream(place_of(exchange, routing_key)),
            partition=0,
            producer=producer,
            number=number,
            digest=digest(body),
            node=self._node,
        )
        named = copy.copy(properties) if properties is not None else pika.BasicProperties()
        identity = encode(producer, number).decode("ascii")
        named.headers = {**(named.headers or {}), HEADER: identity}
        try:
            with self._watched():
                self.channel.basic_publish(exchange, routing_key, body, named, mandatory)
        except UnroutableError:
            self.journal.fail(call, "unroutable")
            raise
        except NackError:
            self.journal.indefinite(call, "nack")
            raise
        except AMQPError as error:
            self.journal.indefinite(call, type(error).__name__)
            raise
        if self._confirms or self._trusting:
            self.journal.ok(call)
        else:
            self.journal.indefinite(call, "not confirmed")

    # -- receiving

    def basic_qos(self, prefetch_size: int = 0, prefetch_count: int = 0, global_qos: bool = False) -> None:
        """Limits the messages in flight of each consumer that comes, or of the whole channel."""
        with self._watched():
            self.channel.basic_qos(prefetch_size, prefetch_count, global_qos)
        self._limits.set(prefetch_count, whole=global_qos)

    def basic_consume(
        self, queue: str, on_message_callback: Callback, auto_ack: bool = False, **more: Any
    ) -> str:
        """Consumes a queue; the callback gets this channel, not pika's."""

        def receive(_: Any, method: Any, properties: Any, body: bytes) -> None:
            self._receive(queue, method, properties, body, auto_ack=auto_ack)
            on_message_callback(self, method, properties, body)

        self._limits.add(queue, limited=not auto_ack)
        self._tell_limit(queue, self._place(queue, queue))
        with self._watched():
            tag = str(self.channel.basic_consume(queue, receive, auto_ack, **more))
        self._tags[tag] = queue
        return tag

    def start_consuming(self) -> None:
        """Calls back for what comes until `stop_consuming`."""
        with self._watched():
            self.channel.start_consuming()

    def consume(
        self, queue: str, auto_ack: bool = False, **more: Any
    ) -> Iterator[tuple[Any, Any, bytes | None]]:
        """Yields messages of a queue as pika does; `cancel` ends it."""
        if self._yielded is None:  # else pika goes on with the consumer that it has
            self._yielded = queue
            self._limits.add(queue, limited=not auto_ack)
        self._tell_limit(queue, self._place(queue, queue))
        found = iter(self.channel.consume(queue, auto_ack, **more))
        while True:
            with self._watched():
                each = next(found, None)
            if each is None:
                return
            if each[0] is not None:
                self._receive(queue, *each, auto_ack=auto_ack)
            yield each

    def basic_get(
        self, queue: str, auto_ack: bool = False
    ) -> tuple[Any, Any, bytes] | tuple[None, None, None]:
        """Gets one message if there is one; prefetch does not limit this."""
        with self._watched():
            method, properties, body = self.channel.basic_get(queue, auto_ack)
        if method is None:
            return None, None, None
        self._limits.add_one()
        self._receive(queue, method, properties, body, auto_ack=auto_ack)
        return method, properties, body

    def basic_cancel(self, consumer_tag: str) -> Any:
        """Ends a consumer."""
        with self._watched():
            found = self.channel.basic_cancel(consumer_tag)
        if consumer_tag in self._tags:
            self._limits.remove(self._tags.pop(consumer_tag))
        return found

    def cancel(self) -> int:
        """Ends what `consume` began; pika gives back what was not yielded yet, and returns how much."""
        with self._watched():
            found = int(self.channel.cancel())
        if self._yielded is not None:
            self._limits.remove(self._yielded)
            self._yielded = None
        return found

    # -- answering

    def basic_ack(self, delivery_tag: int = 0, multiple: bool = False) -> None:
        """Acknowledges a delivery, or all up to it."""
        with self._answering(Operation.ACKNOWLEDGE, delivery_tag, multiple=multiple):
            self.channel.basic_ack(delivery_tag, multiple)

    def basic_nack(self, delivery_tag: int = 0, multiple: bool = False, requeue: bool = True) -> None:
        """Gives deliveries back; without `requeue`, this queue will not deliver them again."""
        with self._answering(_returning(requeue), delivery_tag, multiple=multiple):
            self.channel.basic_nack(delivery_tag, multiple, requeue)

    def basic_reject(self, delivery_tag: int = 0, requeue: bool = True) -> None:
        """Gives a delivery back; without `requeue`, this queue will not deliver it again."""
        with self._answering(_returning(requeue), delivery_tag, multiple=False):
            self.channel.basic_reject(delivery_tag, requeue)

    def basic_recover(self, requeue: bool = False) -> None:
        """Gives back all deliveries."""
        with self._answering(Operation.REJECT, 0, multiple=True):
            self.channel.basic_recover(requeue)

    def settle(self) -> None:
        """Asks the queues for an answer, which shows that they have got all acknowledgements before it.

        AMQP answers no acknowledgement: it is recorded as indefinite unless this, or a declaration of its
        queue, comes after it. `close` does this too. An answer says that the node of the queue has got it,
        not that it is on disk: if the node is killed then, the message comes again.
        """
        for queue in self._deliveries.unsettled():
            self.queue_declare(queue, passive=True)

    # -- queues

    def queue_declare(self, queue: str, passive: bool = False, **more: Any) -> Any:
        """Declares a queue, or asks for one that exists."""
        with self._watched():
            found = self.channel.queue_declare(queue, passive, **more)
        self._deliveries.settle(queue)
        return found

    def queue_bind(self, queue: str, exchange: str, routing_key: str | None = None, **more: Any) -> Any:
        """Binds a queue, which then gets the messages of EXCHANGE/KEY unless the key is a pattern."""
        with self._watched():
            found = self.channel.queue_bind(queue, exchange, routing_key, **more)
        key = queue if routing_key is None else routing_key
        self._places.setdefault(queue, set()).add(place_of(exchange, key))
        return found

    def drain(self, queue: str, quiet_s: float = QUIET_S) -> int:
        """Receives and acknowledges all that is in a queue, and returns how many messages that were.

        The queue must be empty for a while, and nobody else may consume it: messages that somebody holds
        are not in it. Raises EnvironmentFailure if that does not come about; a connection that breaks makes
        the reading fail.
        """
        calls = [
            self.journal.invoke(Operation.READ_TO_END, stream=stream, partition=0, group=group)
            for stream, group in self._all_places(queue)
        ]
        try:
            found = self._empty(queue, quiet_s)
            self.settle()
        except (AMQPError, EnvironmentFailure) as error:
            for call in calls:
                self.journal.fail(call, type(error).__name__)
            raise
        for call in calls:
            self.journal.ok(call)
        return found

    def close(self) -> None:
        """Settles what was acknowledged, and closes the channel."""
        if self.channel.is_open:
            self.settle()
            with self._watched():
                self.channel.close()
        self._end("closed")

    def abandon(self) -> None:
        """Notes that the client ended without closing its channel."""
        self._end("abandoned")

    # -- what is noted

    def _name(self) -> tuple[int, int]:
        """Returns the producer and the number of the next message."""
        again, self._again = self._again, None
        if again is not None:
            return again
        self.published += 1
        return self.journal.process, self.published - 1

    def _empty(self, queue: str, quiet_s: float) -> int:
        found, empty_s = 0, time.monotonic()
        deadline_s = empty_s + DRAIN_PATIENCE_S
        while True:
            method, _, _ = self.basic_get(queue)
            if method is not None:
                found += 1
                self.basic_ack(method.delivery_tag)
                empty_s = time.monotonic()
                deadline_s = empty_s + DRAIN_PATIENCE_S
            elif time.monotonic() - empty_s >= quiet_s:
                state = self.queue_declare(queue, passive=True).method
                if not state.message_count and not state.consumer_count:
                    return found
                if time.monotonic() > deadline_s:
                    raise EnvironmentFailure(
                        f"`{queue}` was not read to its end: it still has {state.consumer_count} consumers",
                        "close their channels first",
                    )
                time.sleep(LOOK_S)
            else:
                time.sleep(LOOK_S)

    def _receive(self, queue: str, method: Any, properties: Any, body: bytes, *, auto_ack: bool) -> None:
        headers = properties.headers
        if headers and headers.get(DEAD):
            return
        place = place_of(method.exchange, method.routing_key)
        if place != queue:
            self._places.setdefault(queue, set()).add(place)
        stream, group = self._place(place, queue)
        self._tell_limit(queue, (stream, group))
        producer, number = identify(headers)
        self.journal.note(
            Operation.RECEIVE,
            stream=stream,
            partition=0,
            group=group,
            producer=producer,
            number=number,
            digest=digest(body),
            attempt=attempt_of(headers, redelivered=method.redelivered),
            node=self._node,
        )
        if not auto_ack:
            fields = Fields(stream=stream, partition=0, group=group, producer=producer, number=number)
            self._deliveries.add(method.delivery_tag, Delivery(queue, fields))

    def _place(self, place: str, queue: str) -> tuple[int, int]:
        """Returns the numbers of a stream and of a queue's subscription to it; a queue's own has none."""
        return self._stream(place), NONE if place == queue else self._recording.group(queue)

    def _stream(self, place: str) -> int:
        return self._recording.stream(place, Stream(place, offsets=False))

    def _all_places(self, queue: str) -> list[tuple[int, int]]:
        return [self._place(place, queue) for place in (queue, *sorted(self._places.get(queue, ())))]

    def _tell_limit(self, queue: str, place: tuple[int, int]) -> None:
        limit = self._limits.changed(queue, place)
        if limit is not None:
            stream, group = place
            self.journal.note(Operation.READY, stream=stream, group=group, number=limit)

    @contextmanager
    def _answering(self, operation: Operation, tag: int, *, multiple: bool) -> Iterator[None]:
        calls: list[tuple[str, Call]] = self._deliveries.answer(operation, tag, multiple=multiple)
        self._deliveries.sent(calls)
        with self._watched():
            yield

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Notices when pika says that the channel is over."""
        try:
            yield
        except AMQPError as error:
            if not self.channel.is_open:
                self._end(type(error).__name__)
            raise

    def _end(self, why: str) -> None:
        if not self._over:
            self._over = True
            self._deliveries.lose(why)
            self.journal.note(Operation.CLOSE)


def _returning(requeue: bool) -> Operation:
    return Operation.REJECT if requeue else Operation.ACKNOWLEDGE
