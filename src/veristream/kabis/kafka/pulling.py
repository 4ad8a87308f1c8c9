"""Pulling events of topics that are not validated straight from Kafka."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from veristream.kabis.consumed import Consumed, Origin, Place
from veristream.kabis.kafka.failures import Troubles, error_of, is_for_good, patiently
from veristream.kabis.kafka.pushing import TOPIC_SETTINGS
from veristream.kabis.kafka.settings import KafkaSettings
from veristream.kabis.kafka.topics import ANSWER_S, Topics, configure
from veristream.kabis.plain_reading import FROM_END, PlainEvents
from veristream.kabis.storage.core import Below
from veristream.kabis.storage.entries import PartitionName

EVENTS_MAX = 2_000
THREADS_MAX = 16
QUEUE_KIB = 16 << 10

Value = TypeVar("Value")

_make = partial(tuple.__new__, Consumed)


@dataclass(slots=True)
class _Source:
    """A partition that is being read; `offset` is what its consumer gives next."""

    place: Place
    origin: Origin
    consumer: Consumer
    troubles: Troubles
    offset: int = -1
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class KafkaPuller:
    """Reads partitions of topics that are not validated, each from the cluster of its topic."""

    def __init__(
        self, settings_of: Callable[[str], KafkaSettings], partitions_of: Callable[[str], int]
    ) -> None:
        self._settings_of = settings_of
        self._partitions_of = partitions_of
        self._sources: dict[Place, _Source] = {}
        self._opening = asyncio.Lock()
        self._threads = ThreadPoolExecutor(THREADS_MAX, "kabis-kafka-pull")

    async def fetch_plain(
        self, place: PartitionName, offset: int, bytes_max: int, wait_ms: int
    ) -> PlainEvents | Below:
        """Events from an offset on, as they are in Kafka; waits that long for the first.

        Raises TimeoutError when Kafka does not answer now, and the failure if it never will.
        """
        source = await self._find((place.topic, place.partition))
        async with source.lock:
            return await self._run(_fetch, source, offset, wait_ms / 1000)

    async def bounds(self, place: Place) -> tuple[int, int]:
        """The first offset that Kafka keeps, and the one that the next event gets."""
        source = await self._find(place)
        async with source.lock:
            return await self._run(_bounds, source)

    async def _find(self, place: Place) -> _Source:
        """The partition, opened when it is first asked for, once."""
        async with self._opening:
            if place not in self._sources:
                self._sources[place] = await self._run(self._open, place)
            return self._sources[place]

    async def _run(self, work: Callable[..., Value], *arguments: object) -> Value:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    def _open(self, place: Place) -> _Source:
        topic, settings = place[0], self._settings_of(place[0])
        Topics(settings).require(topic, self._partitions_of(topic), TOPIC_SETTINGS)
        troubles = Troubles(settings)
        return _Source(
            place,
            Origin(*place, None, None, None, None),
            Consumer(_configure(settings, troubles)),
            troubles,
        )

    def close(self) -> None:
        """Lets go of all clusters."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        for source in self._sources.values():
            source.consumer.close()


def _configure(settings: KafkaSettings, troubles: Troubles) -> dict[str, Any]:
    return configure(
        settings,
        troubles,
        group_id="kabis-nobody",  # the client asks for a name; groups and their commits are on the ledger
        enable_auto_commit=False,
        enable_auto_offset_store=False,
        auto_offset_reset="error",
        queued_max_messages_kbytes=QUEUE_KIB,
        fetch_wait_max_ms=100,
    )


def _fetch(source: _Source, offset: int, wait_s: float) -> PlainEvents | Below:
    """What the partition has from an offset on, in a thread that may wait."""
    if offset == FROM_END:
        end = _bounds(source)[1]
        return PlainEvents([], end, end, 0)
    if offset != source.offset:
        source.consumer.assign([TopicPartition(*source.place, offset)])
        source.offset = offset
    messages = source.consumer.consume(1, wait_s)
    if messages:
        messages += source.consumer.consume(EVENTS_MAX - 1, 0)
    errors = [error for message in messages if (error := message.error()) is not None]
    if errors:
        return _explain(source, offset, errors[0], wait_s)
    if not messages:
        return PlainEvents([], offset, offset, 0)
    events = _show(messages, source.origin)
    source.offset = events[-1].index + 1
    return PlainEvents(events, source.offset, source.offset, sum(map(len, messages)))


def _show(messages: list[Message], origin: Origin) -> list[Consumed]:
    """The messages as events; each passes here, so that nothing is called that need not be."""
    return [
        _make(
            (
                message.offset(),
                message.key(),
                message.value(),
                tuple(message.headers() or ()),
                message.timestamp()[1],
                origin,
            )
        )
        for message in messages
    ]


def _explain(source: _Source, offset: int, error: KafkaError, wait_s: float) -> PlainEvents | Below:
    """What an error comes to: events that were let go, nothing for now, or nothing for good."""
    source.offset = -1
    if error.code() == KafkaError._AUTO_OFFSET_RESET:
        low, high = _bounds(source)
        if offset < low:
            return Below(low)
        time.sleep(wait_s)
        return PlainEvents([], offset, high, 0)
    failure = source.troubles.explain(f"read {source.place[0]}-{source.place[1]}", error)
    if is_for_good(error):
        raise failure
    raise TimeoutError(failure.message)


def _bounds(source: _Source) -> tuple[int, int]:
    place = TopicPartition(*source.place)
    try:
        low, high = patiently(
            lambda: source.consumer.get_watermark_offsets(place, timeout=ANSWER_S), ANSWER_S
        )
    except KafkaException as exception:
        failure = source.troubles.explain(f"find the ends of {source.place[0]}", error_of(exception))
        raise TimeoutError(failure.message) from exception
    return low, high
