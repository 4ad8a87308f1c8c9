"""Pushes events of topics that are not validated straight to Kafka, at Kafka's own pace.

A push puts its event into the partition's open parcel. The events of a parcel are passed to Kafka's client
together, when there are many or after a moment, except for the newest: it is held back until the next one
comes, or until the parcel ends. So the last event of a parcel is always passed on when the parcel ends,
with a delivery callback; `parcels` explains why that is enough.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from veristream.errors import EnvironmentFailure
from veristream.kabis.client.consumed import Place
from veristream.kabis.client.errors import (
    BufferFullError,
    ClosedError,
    DeliveryTimeoutError,
)
from veristream.kabis.client.kafka.handing import hand_over, hand_over_last
from veristream.kabis.client.kafka.locating import Locator
from veristream.kabis.client.kafka.parcels import (
    SMALL_BYTES,
    PlainParcel,
    are_consecutive,
    is_small,
    size_of,
)
from veristream.kabis.client.options import ProducerOptions
from veristream.kabis.client.partitioner import Partitioner
from veristream.kabis.client.pushes import Failure, Pushed, PushedMany, Settlement
from veristream.kabis.kafka.failures import Troubles, error_of
from veristream.kabis.kafka.reading import known_offset
from veristream.kabis.kafka.settings import KafkaSettings
from veristream.kabis.kafka.topics import Topics, configure
from veristream.kabis.protocol.records import (
    LEAF_BYTES_MAX,
    Record,
    decode_leaf,
    encode_leaf,
)
from veristream.kabis.protocol.seal import Sealer

POLL_S = 0.1
HOLD_S = 0.002
PARCEL_S = 0.02
PARCEL_EVENTS = 5_000
"""When a parcel ends although events still arrive; many events share the cost of ending one."""
PUSHED_MAX = 1_000
"""How many events of one call are taken at once."""
MESSAGES_MAX = 2_000_000
MESSAGE_BYTES_MAX = LEAF_BYTES_MAX + 4096
"""An event and Kafka's overhead."""
TOPIC_SETTINGS = {"max.message.bytes": str(MESSAGE_BYTES_MAX)}


@dataclass(slots=True)
class KafkaQueue:
    """One partition; with `each`, Kafka reports the delivery of every event.

    That begins when a program asks for an index and other producers' events lie between ours.
    """

    topic: str
    partition: int
    sealer: Sealer | None
    open: PlainParcel | None = None
    each: bool = False


class KafkaTopic:
    """A topic of Kafka, as `push` needs it."""

    __slots__ = ("_lock", "_only", "_pusher", "partitioner")

    def __init__(self, pusher: KafkaPusher, queues: list[KafkaQueue]) -> None:
        self._pusher = pusher
        self._lock = pusher.lock
        self._only = queues[0] if len(queues) == 1 and queues[0].sealer is None else None
        self.partitioner = Partitioner(queues)

    def push(self, record: Record) -> Pushed:
        """Takes an event and returns its future, or raises BufferFullError. From any thread.

        Every event passes here, so the common case looks nothing up twice and calls almost nothing.
        """
        _, value, key, headers, timestamp_ms, partition = record
        queue = self._only
        if (
            queue is None
            or key is not None
            or partition is not None
            or headers
            or timestamp_ms is not None
            or type(value) is not bytes
            or len(value) > SMALL_BYTES
        ):
            return self._push_any(record)
        with self._lock:
            parcel = queue.open
            if parcel is None or len(parcel.contents) >= parcel.full:
                parcel = self._pusher.ready(queue)
            contents = parcel.contents
            contents.append(value)
            return Pushed(parcel, len(contents) - 1)

    def _push_any(self, record: Record) -> Pushed:
        queue = self._find(record)
        if queue.sealer is not None:
            record = _seal(queue.sealer, record)
        with self._lock:
            parcel = self._pusher.ready(queue)
            parcel.take(record)
            return Pushed(parcel, parcel.count - 1)

    def push_all(self, values: Sequence[bytes], key: bytes | None, many: PushedMany) -> int:
        """Takes as many events of one key as there is room for; returns how many. From any thread.

        Takes none if each has to be examined.
        """
        queue, values = self._only, values[:PUSHED_MAX]
        if queue is None or not _are_small(values if key is None else [key, *values]):
            return 0
        with self._lock:
            try:
                parcel = self._pusher.ready(queue)
            except BufferFullError:
                return 0
            position = len(parcel.contents)
            parcel.contents += values if key is None else [(key, value) for value in values]
        many.add_part(parcel, position, len(values))
        return len(values)

    def _find(self, record: Record) -> KafkaQueue:
        """Returns the queue of the event's partition. Raises an error if the event is invalid."""
        _, value, key, headers, timestamp_ms, _ = record
        _require_bytes(key, value)
        if headers or timestamp_ms is not None or not is_small(record):
            encode_leaf(key, value, headers, timestamp_ms)  # raises TooLargeError
        return self.partitioner.find(record)


class KafkaPusher:
    """Pushes to the topics of one cluster; `told` is called whenever there is room again."""

    def __init__(self, settings: KafkaSettings, options: ProducerOptions, told: Callable[[], None]) -> None:
        self.lock = threading.Lock()
        self.acknowledged = 0
        self.failed = 0
        self._settings = settings
        self._options = options
        self._told = told
        self._topics = Topics(settings)
        self._troubles = Troubles(settings)
        self.producer = Producer(_producer_settings(settings, self._troubles, options))
        self._queues: list[KafkaQueue] = []
        self._after: dict[Place, int] = {}
        self._flying: set[PlainParcel] = set()
        self._waiting = threading.Event()
        self._closed = False
        self._readers = ThreadPoolExecutor(1, "kabis-kafka-read")
        self._threads = [
            threading.Thread(target=work, name=f"kabis-kafka-{name}", daemon=True)
            for name, work in (("hold", self._end_always), ("poll", self._poll_always))
        ]
        for thread in self._threads:
            thread.start()

    def topic(self, name: str, partitions: int, sealer: Sealer | None) -> KafkaTopic:
        """Returns the topic; creates it if necessary. Raises ModelError if its partitions differ."""
        self._topics.require(name, partitions, TOPIC_SETTINGS)
        ends = self._topics.ends(name, partitions)
        queues = [KafkaQueue(name, number, sealer) for number in range(partitions)]
        with self.lock:
            for queue, end in zip(queues, ends, strict=True):
                self._after.setdefault((name, queue.partition), end)
            self._queues += queues
        return KafkaTopic(self, queues)

    def _open_parcel(self, queue: KafkaQueue) -> PlainParcel:
        """Opens a parcel, which ends soon."""
        if self._closed:
            raise ClosedError("events are pushed before the producer is closed")
        parcel = queue.open = PlainParcel(queue.topic, queue.partition)
        parcel.each = queue.each
        parcel.report = partial(self._delivered_each if queue.each else self._delivered, queue, parcel)
        parcel.begun_s = time.monotonic()
        self._flying.add(parcel)
        self._waiting.set()
        return parcel

    def ready(self, queue: KafkaQueue) -> PlainParcel:
        """Returns the open parcel; if it was full, hands its events over. Called with the lock held."""
        parcel = queue.open or self._open_parcel(queue)
        if len(parcel.contents) >= parcel.full:
            try:
                hand_over(self.producer, parcel, len(parcel.contents))
            except (BufferError, KafkaException) as error:
                raise self.explain(parcel, error) from error
        return parcel

    def explain(self, parcel: PlainParcel, error: BufferError | KafkaException) -> EnvironmentFailure:
        """Returns why Kafka's client takes no event now."""
        if isinstance(error, BufferError):
            return BufferFullError(self._options.buffer_bytes)
        return self._troubles.explain(f"push to {parcel.topic}-{parcel.partition}", error_of(error))

    def parcels(self) -> list[PlainParcel]:
        """Returns all parcels that are not settled, and sends what was held back."""
        self._end_parcels(lambda parcel: True)
        with self.lock:
            return list(self._flying)

    @property
    def buffered_bytes(self) -> int:
        """The bytes in flight."""
        with self.lock:
            return sum(map(size_of, self._flying))

    def close(self) -> None:
        """Fails everything that is not acknowledged, and all further pushes."""
        with self.lock:
            self._closed = True
            left = list(self._flying)
            for queue in self._queues:
                queue.open = None
        self._waiting.set()
        for thread in self._threads:
            thread.join()
        self._readers.shutdown(wait=True, cancel_futures=True)
        for parcel in left:
            self._settle(parcel, ClosedError("the event was not acknowledged before"))
        with suppress(KafkaException):
            self.producer.purge()
        self.producer.flush(POLL_S)

    # Ending parcels.

    def _end_always(self) -> None:
        while not self._closed:
            self._waiting.wait()
            self._waiting.clear()
            time.sleep(HOLD_S)
            self._end_parcels(_is_due)

    def _end_parcels(self, is_due: Callable[[PlainParcel], bool]) -> None:
        """Hands over all events that wait, except for the last event of a parcel that continues."""
        failed: list[tuple[PlainParcel, Failure]] = []
        with self.lock:
            for queue in self._queues:
                parcel = queue.open
                if parcel is None:
                    continue
                try:
                    if is_due(parcel):
                        hand_over_last(self.producer, parcel)
                        queue.open = None
                    else:
                        hand_over(self.producer, parcel, len(parcel.contents) - 1)
                        self._waiting.set()
                except BufferError:
                    self._waiting.set()
                except KafkaException as error:
                    queue.open = None
                    failed.append((parcel, self.explain(parcel, error)))
        for parcel, why in failed:
            self._settle(parcel, why)

    # Kafka's reports.

    def _poll_always(self) -> None:
        while not self._closed:
            try:
                self.producer.poll(POLL_S)
            except KafkaException as exception:  # the client has failed for good
                for parcel in self.parcels():
                    self._settle(parcel, self.explain(parcel, exception))

    def _delivered(
        self, queue: KafkaQueue, parcel: PlainParcel, error: KafkaError | None, message: Message
    ) -> None:
        """Kafka reports the delivery of the first or the last event of a parcel."""
        if error is not None:
            self._fail(parcel, error)
            return
        self._note(parcel, message)
        if not parcel.ended or parcel.count > len(parcel.indices) == 1:
            return
        first, last = parcel.indices[0], parcel.indices[-1]
        is_late = time.monotonic() - parcel.begun_s > self._options.delivery_timeout_ms / 1000
        if first is None or last is None or is_late:
            self._readers.submit(self._look, queue, parcel)
        elif are_consecutive(first, last, parcel.count):
            self._settle(parcel, Settlement(first, None, None))
            parcel.forget()
        else:
            self._settle(parcel, Settlement(first, None, None, self._locator(queue, parcel)))

    def _delivered_each(
        self, queue: KafkaQueue, parcel: PlainParcel, error: KafkaError | None, message: Message
    ) -> None:
        """Kafka reports the delivery of each event."""
        if error is not None:
            self._fail(parcel, error)
            return
        self._note(parcel, message)
        if not parcel.ended or len(parcel.indices) < parcel.count:
            return
        known = [index for index in parcel.indices if index is not None]
        if len(known) == parcel.count:
            self._settle(parcel, Settlement(known[0], None, None, lambda: known))
            parcel.forget()
        else:
            self._readers.submit(self._look, queue, parcel)

    def _note(self, parcel: PlainParcel, message: Message) -> None:
        """Notes the offset of an event, after which the next ones of its partition lie."""
        place, offset = (parcel.topic, parcel.partition), known_offset(message)
        if not parcel.indices:
            parcel.after = self._after[place]
        parcel.indices.append(offset)
        if offset is not None:
            self._after[place] = offset + 1

    def _fail(self, parcel: PlainParcel, error: KafkaError) -> None:
        where = f"{parcel.topic}-{parcel.partition}"
        failure: Failure = self._troubles.explain(f"push to {where}", error)
        if error.code() == KafkaError._MSG_TIMED_OUT:
            failure = DeliveryTimeoutError(where, failure.message)
        self._settle(parcel, failure)

    def _look(self, queue: KafkaQueue, parcel: PlainParcel) -> None:
        """Reads the partition to learn whether it has a parcel's events, if Kafka's reports do not say."""
        locator = self._locator(queue, parcel)
        try:
            first = locator()[0]
        except EnvironmentFailure as failure:
            self._settle(parcel, failure)
        else:
            self._settle(parcel, Settlement(first, None, None, locator))

    def _locator(self, queue: KafkaQueue, parcel: PlainParcel) -> Locator:
        return Locator(self._settings, parcel, partial(_ask_about_each, queue))

    def _settle(self, parcel: PlainParcel, fate: Settlement | Failure) -> None:
        with self.lock:
            if parcel not in self._flying:
                return
            self._flying.discard(parcel)
            if isinstance(fate, Settlement):
                self.acknowledged += parcel.count
            else:
                self.failed += parcel.count
        parcel.settle(fate)
        self._told()


def _ask_about_each(queue: KafkaQueue) -> None:
    """Notes that other producers push to this partition, and that a program asks for indices."""
    queue.each = True


def _require_bytes(*given: object) -> None:
    """Raises TypeError now, because later it would concern many events."""
    for each in given:
        if not isinstance(each, bytes | None):
            raise TypeError(f"an event's key and value are bytes, not {type(each).__name__}")


def _are_small(values: Sequence[bytes]) -> bool:
    """Whether all are bytes, and so small that many of them may wait."""
    return bool(values) and set(map(type, values)) == {bytes} and max(map(len, values)) <= SMALL_BYTES


def _is_due(parcel: PlainParcel) -> bool:
    """Whether no event has arrived since the last call, or the parcel is large or old."""
    before, parcel.seen = parcel.seen, len(parcel.contents)
    lasts_s = time.monotonic() - parcel.begun_s
    return parcel.seen == before or parcel.seen > PARCEL_EVENTS or lasts_s > PARCEL_S


def _seal(sealer: Sealer, record: Record) -> Record:
    sealed = decode_leaf(sealer.seal_leaf(record.key, record.value, record.headers, record.timestamp_ms))
    return Record(record.topic, sealed.value, sealed.key, sealed.headers, sealed.timestamp_ms)


def _producer_settings(
    settings: KafkaSettings, troubles: Troubles, options: ProducerOptions
) -> dict[str, Any]:
    return configure(
        settings,
        troubles,
        enable_idempotence=True,
        enable_gapless_guarantee=True,
        max_in_flight=1,  # a restarted broker remembers only the last request of each producer
        acks="all",
        linger_ms=options.linger_ms,
        message_max_bytes=MESSAGE_BYTES_MAX,
        message_timeout_ms=options.delivery_timeout_ms,
        queue_buffering_max_messages=MESSAGES_MAX,
        queue_buffering_max_kbytes=max(1, options.buffer_bytes >> 10),
    )
