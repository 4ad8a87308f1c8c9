"""Pulling events of topics that are not validated straight from Kafka.

One client of Kafka reads all partitions of a cluster, in a thread of its own, a little ahead of who pulls.
A partition is taken up at an offset when it is first asked for, or asked for from elsewhere. When much has
arrived that nobody has taken, reading rests; and if nobody takes any for a while, the partitions that keep
the others waiting are let go, and taken up again when they are asked for.
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
"""How many events are read before those who wait for them are told."""
AT_ONCE = 200
"""How many messages are there at once: so few are gone again before the collector of garbage looks."""
MANY = 100
LINGER_S = 0.003
"""How long to wait for company where many events arrive: each handing over costs as much as some events."""
POLL_S = 0.05
THREADS_MAX = 16
QUEUE_KIB = 16 << 10
HELD_BYTES = 8 << 20
REST_S = 0.5
LIST_S = 1.0

Value = TypeVar("Value")


class _Source:
    """A partition: the events that have arrived, from `position` up to `next_offset`.

    `turned` once it is to be taken up at `next_offset`; until that is done, what arrives is of no use.
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
        """Drops what is here; reading goes on from an offset."""
        self.events, self.size_bytes = [], 0
        self.position = self.next_offset = offset
        self.turned = True

    def take(self) -> PlainEvents | None:
        """What has arrived, if anything."""
        if not self.events:
            return None
        events, size_bytes = self.events, self.size_bytes
        self.events, self.size_bytes = [], 0
        self.position = self.next_offset
        return PlainEvents(events, self.position, self.position, size_bytes)

    def wake(self) -> None:
        """Tells whoever waits for this partition, once."""
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
        """Takes a partition in, to be read once it is asked for."""
        with self._lock:
            self._sources[source.place] = source

    def close(self) -> None:
        """Lets go of the cluster."""
        self._closed = True
        self._thread.join()
        self._consumer.close()

    def bounds(self, place: Place) -> tuple[int, int]:
        """The first offset that Kafka keeps, and the one that the next event gets."""
        try:
            return self._topics.bounds(*place)
        except KafkaFailure as failure:
            raise TimeoutError(failure.message) from failure

    def require(self, topic: str, partitions: int) -> None:
        """Makes the topic if it is not there; raises ModelError if it has another number of partitions."""
        self._topics.require(topic, partitions, TOPIC_SETTINGS)

    def ask(
        self, source: _Source, offset: int, arrived: Callable[[], object]
    ) -> PlainEvents | KafkaError | None:
        """What has arrived from an offset on; None if nothing has, and then `arrived` is called once."""
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
        """Reads what has arrived, a part after the other, and tells who waits for it; gives how much."""
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
        """Whether to read on; waits for it, and lets go of what nobody takes."""
        with self._taken:
            held = [source for source in self._sources.values() if source.size_bytes]
            if sum(source.size_bytes for source in held) <= HELD_BYTES:
                return True
            if not self._taken.wait(REST_S):
                for source in held:
                    self._let_go(source)
            return False

    def _turn(self) -> None:
        """Takes partitions up where they are to be read from."""
        with self._lock:
            turned = [source for source in self._sources.values() if source.turned]
        for topic in {source.place[0] for source in turned} - self._known:
            self._known.add(topic)
            with suppress(KafkaException):  # then reading begins later: the client asks, but takes its time
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
        """Adds events to their partitions, which are noted; gives how many bytes that are."""
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
        """Keeps an error for whoever reads its partition, or for everybody if it is about none."""
        with self._lock:
            for source in self._sources.values():
                if place is None or place[0] is None or place == source.place:
                    source.error = error
                    self._let_go(source)
                    source.wake()

    def _let_go(self, source: _Source) -> None:
        """Reads a partition no more, and drops what has arrived, until it is asked for."""
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
        """Events from an offset on, as they are in Kafka; waits that long for the first.

        Raises TimeoutError when Kafka does not answer now, and the failure if it never will.
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
        """The first offset that Kafka keeps, and the one that the next event gets."""
        stream, source = await self._find(place)
        return await self._run(stream.bounds, source.place)

    async def _find(self, place: Place) -> tuple[_Stream, _Source]:
        """The partition, opened when it is first asked for, once."""
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
        """The cluster that has a partition; one call at a time."""
        topic, settings = place[0], self._settings_of(place[0])
        stream = self._streams.get(settings.bootstrap)
        if stream is None:
            stream = self._streams[settings.bootstrap] = _Stream(settings)
        stream.require(topic, self._partitions_of(topic))
        return stream

    def close(self) -> None:
        """Lets go of all clusters."""
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
        group_id="kabis-nobody",  # the client asks for a name; groups and their commits are on the ledger
        enable_auto_commit=False,
        enable_auto_offset_store=False,
        auto_offset_reset="error",
        queued_max_messages_kbytes=QUEUE_KIB,
        fetch_queue_backoff_ms=5,  # it would rest for a second whenever so much is here
        fetch_wait_max_ms=100,
    )


def _runs(messages: list[Message]) -> Iterator[tuple[Place, list[Message]]]:
    """Messages of one partition that arrived together; every message passes here, so that no function of
    ours is called for each."""
    places: list[Any] = list(
        zip(map(Message.topic, messages), map(Message.partition, messages), strict=True)
    )
    if places and places.count(places[0]) == len(places):
        yield places[0], messages
        return
    for place, run in groupby(zip(places, messages, strict=True), itemgetter(0)):
        yield place, [message for _, message in run]


def _show(messages: Sequence[Message], origin: Origin) -> Iterator[Consumed]:
    """The messages as events; what is said above holds here too."""
    found = list(map(Message.headers, messages))
    headers = [tuple(each or ()) for each in found] if any(found) else repeat(())
    times_ms = [time_ms for _, time_ms in map(Message.timestamp, messages)]
    keys, values = map(Message.key, messages), map(Message.value, messages)
    fields = zip(map(Message.offset, messages), keys, values, headers, times_ms, repeat(origin))
    return map(tuple.__new__, repeat(Consumed), fields)


def _explain(
    stream: _Stream, source: _Source, offset: int, error: KafkaError, wait_s: float
) -> PlainEvents | Below:
    """What an error comes to: events that were let go, nothing for now, or nothing for good."""
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
