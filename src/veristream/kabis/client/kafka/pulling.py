"""Pulls events of topics that are not validated straight from Kafka.

One Kafka client reads all partitions of a cluster, in its own thread, a little ahead of the program. It
seeks in a partition when that is first asked for, or asked for at another offset. When many events wait to
be taken, reading pauses. If none are taken for a while, the partitions that hold up the others are dropped,
and read again when they are asked for.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from veristream.kabis.client.consumed import Consumed, Origin, Place, PlainEvents
from veristream.kabis.client.kafka.pushing import TOPIC_SETTINGS
from veristream.kabis.kafka.failures import KafkaFailure, Troubles, error_of, is_for_good
from veristream.kabis.kafka.settings import KafkaSettings
from veristream.kabis.kafka.topics import Topics, configure
from veristream.kabis.protocol.answers import Below
from veristream.kabis.protocol.partitions import PartitionName
from veristream.kabis.protocol.plain import FROM_END

EVENTS_MAX = 2_000
"""How many events are read before those who wait for them are woken."""
AT_ONCE = 200
"""How many messages exist at once: so few that they are freed before the garbage collector runs."""
MANY = 100
LINGER_S = 0.003
"""How long to wait for further events where many arrive, because a wake-up costs as much as some events."""
POLL_S = 0.05
THREADS_MAX = 16
QUEUE_KIB = 16 << 10
HELD_BYTES = 8 << 20
REST_S = 0.5
LIST_S = 1.0

Value = TypeVar("Value")


class _Source:
    """A partition: the events that have arrived, from `position` to `next_offset`.

    `turned` until the client has sought to `next_offset`; events that arrive before are dropped.
    """

    __slots__ = (
        *("arrived", "error", "events", "next_offset", "origin", "place", "position", "reading"),
        *("one_by_one", "size_bytes", "turned"),
    )

    def __init__(self, place: Place) -> None:
        self.place = place
        self.origin = Origin(*place, None, None, None, None)
        self.position = self.next_offset = -1
        self.turned = self.reading = False
        self.events: list[Consumed] = []
        self.size_bytes = 0
        self.error: KafkaError | None = None
        self.arrived: Callable[[], object] | None = None
        self.one_by_one = asyncio.Lock()

    def turn_to(self, offset: int) -> None:
        """Drops the events that have arrived, and continues from an offset."""
        self.events, self.size_bytes = [], 0
        self.position = self.next_offset = offset
        self.turned = True

    def take(self) -> PlainEvents | None:
        """Returns the events that have arrived, or None."""
        if not self.events:
            return None
        events, size_bytes = self.events, self.size_bytes
        self.events, self.size_bytes = [], 0
        self.position = self.next_offset
        return PlainEvents(events, self.position, self.position, size_bytes)

    def wake(self) -> None:
        """Wakes those who wait for this partition, once."""
        arrived, self.arrived = self.arrived, None
        if arrived is not None:
            arrived()


class _Stream:
    """All partitions that are read from one cluster."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.troubles = Troubles(settings)
        self._topics = Topics(settings)
        self._consumer = Consumer(_configure(settings, self.troubles))
        self._lock = threading.Lock()
        self._taken = threading.Condition(self._lock)
        self._sources: dict[Place, _Source] = {}
        self._known: set[str] = set()
        self._closed = False
        self._thread = threading.Thread(target=self._read_always, name="kabis-kafka-read", daemon=True)
        self._thread.start()

    def add(self, source: _Source) -> None:
        """Adds a partition, to be read once it is asked for."""
        with self._lock:
            self._sources[source.place] = source

    def close(self) -> None:
        """Closes the connection to the cluster."""
        self._closed = True
        self._thread.join()
        self._consumer.close()

    def bounds(self, place: Place) -> tuple[int, int]:
        """Returns the first offset in Kafka, and the offset of the next event."""
        try:
            return self._topics.bounds(*place)
        except KafkaFailure as failure:
            raise TimeoutError(failure.message) from failure

    def require(self, topic: str, partitions: int) -> None:
        """Creates the topic if necessary. Raises ModelError if the number of partitions differs."""
        self._topics.require(topic, partitions, TOPIC_SETTINGS)

    def ask(
        self, source: _Source, offset: int, arrived: Callable[[], object]
    ) -> PlainEvents | KafkaError | None:
        """Returns what has arrived from an offset on; if nothing has, calls `arrived` once it does."""
        with self._lock:
            source.arrived = None
            if source.error is not None:
                error, source.error = source.error, None
                return error
            if offset != source.position:
                source.turn_to(offset)
            found = source.take()
            source.turned = source.turned or not source.reading
            if found is None:
                source.arrived = arrived
            self._taken.notify()
            return found

    def _read_always(self) -> None:
        linger_s = 0.0
        while not self._closed:
            try:
                self._turn()
                if self._has_room():
                    linger_s = LINGER_S if self._read(linger_s) > MANY else 0.0
            except KafkaException as exception:
                self._complain(error_of(exception), None)
                time.sleep(POLL_S)

    def _read(self, linger_s: float) -> int:
        """Reads what has arrived, in parts, and wakes those who wait for it; returns the bytes."""
        count = size_bytes = 0
        among: set[_Source] = set()
        try:
            wanted, wait_s = 1, POLL_S
            until_s = 0.0
            while count < EVENTS_MAX and size_bytes < HELD_BYTES:
                messages = self._consumer.consume(wanted, wait_s)
                size_bytes += self._share_out(messages, among)
                count += len(messages)
                if len(messages) < wanted:
                    break
                until_s = until_s or time.monotonic() + linger_s
                wanted, wait_s = AT_ONCE, max(0.0, until_s - time.monotonic())
        finally:
            with self._lock:
                for source in among:
                    source.wake()
        return count

    def _has_room(self) -> bool:
        """Whether to continue reading; waits for that, and drops partitions that nobody takes."""
        with self._taken:
            held = [source for source in self._sources.values() if source.size_bytes]
            if sum(source.size_bytes for source in held) <= HELD_BYTES:
                return True
            if not self._taken.wait(REST_S):
                for source in held:
                    self._let_go(source)
            return False

    def _turn(self) -> None:
        """Seeks in the partitions that were turned to another offset."""
        with self._lock:
            turned = [source for source in self._sources.values() if source.turned]
        for topic in {source.place[0] for source in turned} - self._known:
            self._known.add(topic)
            with suppress(
                KafkaException
            ):  # then reading begins later, when the client has asked for the partition
                self._consumer.list_topics(topic, timeout=LIST_S)
        with self._lock:
            for source in turned:
                if source.reading:
                    self._consumer.incremental_unassign([TopicPartition(*source.place)])
                source.turned, source.reading = False, True
            if turned:
                places = [TopicPartition(*source.place, source.next_offset) for source in turned]
                self._consumer.incremental_assign(places)

    def _share_out(self, messages: list[Message], among: set[_Source]) -> int:
        """Adds events to their partitions, which are noted; returns the bytes."""
        if any(map(Message.error, messages)):
            for message in messages:
                if (error := message.error()) is not None:
                    self._complain(error, (message.topic(), message.partition()))
            messages = [message for message in messages if message.error() is None]
        size_bytes = 0
        with self._lock:
            for place, run in _runs(messages):
                source = self._sources[place]
                if source.turned or not source.reading:
                    continue
                source.events += _show(run, source.origin)
                source.next_offset = source.events[-1].index + 1
                run_bytes = sum(map(len, run))
                source.size_bytes += run_bytes
                size_bytes += run_bytes
                among.add(source)
        return size_bytes

    def _complain(self, error: KafkaError | None, place: tuple[str | None, int | None] | None) -> None:
        """Keeps an error for the reader of its partition, or for all if it names none."""
        with self._lock:
            for source in self._sources.values():
                if place is None or place[0] is None or place == source.place:
                    source.error = error
                    self._let_go(source)
                    source.wake()

    def _let_go(self, source: _Source) -> None:
        """Stops reading a partition until it is asked for again, and drops what has arrived."""
        if source.reading:
            self._consumer.incremental_unassign([TopicPartition(*source.place)])
        source.turn_to(source.position)
        source.turned = source.reading = False


class KafkaPuller:
    """Reads partitions of topics that are not validated, each from the cluster of its topic."""

    def __init__(
        self, settings_of: Callable[[str], KafkaSettings], partitions_of: Callable[[str], int]
    ) -> None:
        self._settings_of = settings_of
        self._partitions_of = partitions_of
        self._streams: dict[str, _Stream] = {}
        self._sources: dict[Place, tuple[_Stream, _Source]] = {}
        self._opening = asyncio.Lock()
        self._threads = ThreadPoolExecutor(THREADS_MAX, "kabis-kafka-pull")

    async def fetch_plain(
        self, place: PartitionName, offset: int, bytes_max: int, wait_ms: int
    ) -> PlainEvents | Below:
        """Returns events of Kafka from an offset on; waits for the first.

        Raises TimeoutError if Kafka does not answer now, and another failure if it never will.
        """
        stream, source = await self._find((place.topic, place.partition))
        async with source.one_by_one:
            if offset == FROM_END:
                end = (await self._run(stream.bounds, source.place))[1]
                return PlainEvents([], end, end, 0)
            found = await _ask(stream, source, offset, wait_ms / 1000)
            if isinstance(found, KafkaError):
                return await self._run(_explain, stream, source, offset, found, wait_ms / 1000)
            return found or PlainEvents([], offset, offset, 0)

    async def bounds(self, place: Place) -> tuple[int, int]:
        """Returns the first offset in Kafka, and the offset of the next event."""
        stream, source = await self._find(place)
        return await self._run(stream.bounds, source.place)

    async def _find(self, place: Place) -> tuple[_Stream, _Source]:
        """Returns the partition; opens it on the first call."""
        found = self._sources.get(place)
        if found is not None:
            return found
        async with self._opening:
            if place not in self._sources:
                self._sources[place] = await self._run(self._open, place), _Source(place)
                self._sources[place][0].add(self._sources[place][1])
            return self._sources[place]

    async def _run(self, work: Callable[..., Value], *arguments: object) -> Value:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    def _open(self, place: Place) -> _Stream:
        """Returns the stream of the cluster that has a partition; one call at a time."""
        topic, settings = place[0], self._settings_of(place[0])
        stream = self._streams.get(settings.bootstrap)
        if stream is None:
            stream = self._streams[settings.bootstrap] = _Stream(settings)
        stream.require(topic, self._partitions_of(topic))
        return stream

    def close(self) -> None:
        """Closes the connections to all clusters."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        for stream in self._streams.values():
            stream.close()


async def _ask(
    stream: _Stream, source: _Source, offset: int, wait_s: float
) -> PlainEvents | KafkaError | None:
    """What has arrived from an offset on, after a while if need be."""
    loop, arrived = asyncio.get_running_loop(), asyncio.Event()
    found = stream.ask(source, offset, lambda: loop.call_soon_threadsafe(arrived.set))
    if found is not None:
        return found
    try:
        async with asyncio.timeout(wait_s):
            await arrived.wait()
    except TimeoutError:
        pass
    return stream.ask(source, offset, lambda: None)


def _configure(settings: KafkaSettings, troubles: Troubles) -> dict[str, Any]:
    return configure(
        settings,
        troubles,
        group_id="kabis-nobody",  # the client requires a name; groups and their commits are on the ledger
        enable_auto_commit=False,
        enable_auto_offset_store=False,
        auto_offset_reset="error",
        queued_max_messages_kbytes=QUEUE_KIB,
        fetch_queue_backoff_ms=5,  # otherwise the client pauses for a second whenever it has read this much
        fetch_wait_max_ms=100,
    )


def _runs(messages: list[Message]) -> Iterator[tuple[Place, list[Message]]]:
    """Yields runs of messages of one partition, without a Python call for each message."""
    places: list[Any] = list(
        zip(map(Message.topic, messages), map(Message.partition, messages), strict=True)
    )
    if places and places.count(places[0]) == len(places):
        yield places[0], messages
        return
    for place, run in groupby(zip(places, messages, strict=True), itemgetter(0)):
        yield place, [message for _, message in run]


def _show(messages: Sequence[Message], origin: Origin) -> Iterator[Consumed]:
    """Converts messages to events, without a Python call for each message."""
    found = list(map(Message.headers, messages))
    headers = [tuple(each or ()) for each in found] if any(found) else repeat(())
    times_ms = [time_ms for _, time_ms in map(Message.timestamp, messages)]
    keys, values = map(Message.key, messages), map(Message.value, messages)
    fields = zip(map(Message.offset, messages), keys, values, headers, times_ms, repeat(origin))
    return map(tuple.__new__, repeat(Consumed), fields)


def _explain(
    stream: _Stream, source: _Source, offset: int, error: KafkaError, wait_s: float
) -> PlainEvents | Below:
    """Returns that events were released or are not there yet; raises what keeps Kafka from answering."""
    if error.code() == KafkaError._AUTO_OFFSET_RESET:
        low, high = stream.bounds(source.place)
        if offset < low:
            return Below(low)
        time.sleep(wait_s)
        return PlainEvents([], offset, high, 0)
    failure = stream.troubles.explain(f"read {source.place[0]}-{source.place[1]}", error)
    if is_for_good(error):
        raise failure
    raise TimeoutError(failure.message)
