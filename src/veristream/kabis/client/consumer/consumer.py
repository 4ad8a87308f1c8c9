"""Consumers: subscribe to topics, pull events in order, and commit positions.

    options = ConsumerOptions(group="billing")
    with KabisConsumer(genesis, author, connect, options) as consumer:
        consumer.subscribe(["orders"])
        while True:
            for event in consumer.pull(timeout=1.0):
                event.index, event.producer, event.value

With `validate=True`, the default, an event is delivered only if its producer signed it, the validators
ordered it, and it is exactly what was signed; a topic that is not validated delivers nothing. With
`validate=False` both kinds of topics are read with Kafka's guarantees (see `consumer/core.py`).

A consumer in a group reads its share of the partitions. The ledger determines the assignment, so that no
coordinator can assign a partition twice. Pulled events are committed every few seconds when the next pull
begins, or by `commit`. After a restart the group continues from the last commit, so that every event is
processed at least once. `AsyncKabisConsumer` is the same in an event loop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar, assert_never

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.channels.failures import FAILURES
from veristream.kabis.channels.interfaces import Connect
from veristream.kabis.client.authority import require_reader
from veristream.kabis.client.consumed import Consumed, Place
from veristream.kabis.client.consumer import outputs
from veristream.kabis.client.consumer.core import ConsumerCore
from veristream.kabis.client.consumer.outputs import Output, Ticket
from veristream.kabis.client.consumer.plain_reading import Answer
from veristream.kabis.client.consumer.validated_reading import find_index
from veristream.kabis.client.driver import (
    OPEN_TIMEOUT_S,
    AsyncClient,
    Blocking,
    Driver,
    awaited,
    directly,
    in_loop,
)
from veristream.kabis.client.errors import ClosedError
from veristream.kabis.client.fetching import require_partition, require_party
from veristream.kabis.client.kafka.clients import KafkaSources
from veristream.kabis.client.options import ConsumerOptions, Start
from veristream.kabis.ledger.follower import Follower
from veristream.kabis.ledger.state import Topic
from veristream.kabis.protocol.answers import Below
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.partitions import PartitionName
from veristream.kabis.protocol.plain import FROM_END
from veristream.kabis.protocol.transactions import Author

_LOGGER = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 10.0
EVENTS_MAX = 1000

Value = TypeVar("Value")


class AsyncKabisConsumer(AsyncClient[Output]):
    """A consumer in an event loop; `async with` opens and closes it."""

    def __init__(
        self,
        genesis: Genesis,
        author: Author | None,
        connect: Connect,
        options: ConsumerOptions = ConsumerOptions(),  # noqa: B008 (frozen)
    ) -> None:
        self._connect = connect
        self._options = options
        self._opened = False
        self.arrived = threading.Event()
        self._arrived_loop: asyncio.Event
        self._waiting: dict[Ticket, asyncio.Event] = {}
        self._author = author
        self._core = ConsumerCore(Follower(genesis), author, options)
        self._plain = KafkaSources(self._core.follower.ledger)
        self._driver: Driver[Output] = Driver(self._core, self._perform)

    async def open(self, timeout: float = OPEN_TIMEOUT_S) -> None:
        """Connects and follows the chain to its end; raises StalledError if nothing comes for so long."""
        self._arrived_loop = asyncio.Event()
        await self._driver.open(self._connect, timeout)
        if self._options.nearest is not None:
            try:
                require_party(self._core.follower.ledger, self._options.nearest)
            except ModelError:
                await self._driver.close()
                raise
        self._plain.open(self._driver.channels.kafka)
        self._opened = True
        self._driver.feed(self._core.start)

    # Subscribing.

    def subscribe(self, topics: Iterable[str]) -> None:
        """Reads these topics and no others: all of their partitions, or the group's share."""
        self._feed(lambda now_ms: self._core.subscribe(topics, now_ms))

    def unsubscribe(self) -> None:
        """Stops reading, and leaves the group."""
        self._feed(self._core.unsubscribe)

    def assign(self, places: Iterable[Place]) -> None:
        """Reads these partitions and no others, without a group."""
        self._feed(lambda now_ms: self._core.assign(places, now_ms))

    def assignment(self) -> set[Place]:
        """The partitions that this consumer reads now."""
        return self._ask(self._core.assignment)

    # Pulling.

    async def pull(self, timeout: float = 0.0, max_events: int = EVENTS_MAX) -> list[Consumed]:
        """Returns the next events as soon as there are any, or none after the timeout."""
        deadline_s = time.monotonic() + timeout
        while True:
            self._arrived_loop.clear()
            events = self.pull_nowait(max_events)
            left_s = deadline_s - time.monotonic()
            if events or left_s <= 0:
                return events
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._arrived_loop.wait()

    def pull_nowait(self, max_events: int = EVENTS_MAX) -> list[Consumed]:
        """Returns the events that have arrived; from any thread."""
        self._require_open()
        with self._driver.lock:
            if self._author is not None:
                topics = {topic for topic, _ in self._core.assignment()}
                require_reader(self._core.follower.ledger, self._author, topics)
            events = self._core.take(max_events)
            if self._core.attention:
                self._driver.wake()
        return events

    # Positions.

    def position(self, place: Place) -> int | None:
        """Returns the index of the next event to pull; None until the storage party reports the end."""
        return self._ask(lambda: self._core.position(place))

    def seek(self, place: Place, index: int) -> None:
        """Continues from an index. Raises BelowLowWaterError below the low-water mark."""
        self._feed(lambda now_ms: self._core.seek(place, index, now_ms))

    def seek_to_beginning(self, places: Iterable[Place] | None = None) -> None:
        """Continues from the first event of the partitions, by default of all."""
        self._seek_to(places, Start.BEGINNING)

    def seek_to_end(self, places: Iterable[Place] | None = None) -> None:
        """Continues from the end of the partitions, by default of all."""
        self._seek_to(places, Start.END)

    def _seek_to(self, places: Iterable[Place] | None, start: Start) -> None:
        chosen = self.assignment() if places is None else places
        self._feed(lambda now_ms: self._core.seek_to(chosen, start, now_ms))

    def pause(self, places: Iterable[Place]) -> None:
        """Pulls nothing from these partitions until they are resumed."""
        self._ask(lambda: self._core.pause(places))

    def resume(self, places: Iterable[Place]) -> None:
        """Pulls from these partitions again."""
        self._feed(lambda now_ms: self._core.resume(places, now_ms))

    def paused(self) -> set[Place]:
        """The partitions that are paused."""
        return self._ask(self._core.paused)

    async def commit(self, offsets: Mapping[Place, int] | None = None, timeout: float = 30.0) -> None:
        """Commits positions of the group to the ledger, by default those after the last pull.

        Raises CommitRefusedError if the partitions are assigned to another member.
        """
        self._require_open()
        with self._driver.lock:
            ticket = self._core.commit(offsets)
        await self._settled(ticket, timeout)

    async def _settled(self, ticket: Ticket, timeout: float) -> None:
        self._waiting[ticket] = asyncio.Event()
        try:
            self._driver.feed(self._core.tick)
            async with asyncio.timeout(timeout):
                await self._waiting[ticket].wait()
        except TimeoutError:
            raise EnvironmentFailure(
                "the ledger did not record the commit in time", "check whether validators decide blocks"
            ) from None
        finally:
            del self._waiting[ticket]
        if ticket.failure is not None:
            raise ticket.failure

    def committed(self, place: Place) -> int | None:
        """Returns the position that the group committed in a partition, or None."""
        return self._ask(lambda: self._core.committed(place))

    async def beginning_offsets(self, places: Iterable[Place]) -> dict[Place, int]:
        """Returns the first readable index of each partition."""
        return {place: await self._bound(place, at_end=False) for place in places}

    async def end_offsets(self, places: Iterable[Place]) -> dict[Place, int]:
        """Returns the index of the next event of each partition."""
        return {place: await self._bound(place, at_end=True) for place in places}

    async def _bound(self, place: Place, *, at_end: bool) -> int:
        known = self._ask(lambda: require_partition(self._core.follower.ledger, place))
        if self._options.validate:
            return known.next_index if at_end else known.low_water
        party, in_kafka = self._party(self._party_of(place[0])), self._plain.find(place[0])
        try:
            if in_kafka is not None:
                return (await in_kafka.bounds(place))[at_end]
            part = await party.fetch_plain(PartitionName(*place), FROM_END if at_end else 0, 1, 0)
        except FAILURES as error:
            raise EnvironmentFailure(
                f"the storage party {party.name} of {place[0]} does not answer: {error}",
                "check whether it runs",
            ) from error
        if isinstance(part, Below):
            return part.low_water
        return part.end if at_end else 0

    def _party_of(self, topic: str) -> str:
        return self._ask(lambda: self._core.follower.ledger.memberships.party_of(topic))

    def offsets_for_times(self, times_ms: Mapping[Place, int]) -> dict[Place, int | None]:
        """Returns each partition's first index in a block of that time or later, or None."""
        ledger = self._core.follower.ledger
        return self._ask(lambda: {place: find_index(ledger, place, ms) for place, ms in times_ms.items()})

    def metrics(self) -> Mapping[str, int]:
        """Returns counts of what the consumer delivered and of suspicious answers by storage parties."""

        def read() -> dict[str, int]:
            core = self._core
            return {
                "delivered": core.delivered,
                "buffered_bytes": core.buffered_bytes,
                "height": core.follower.ledger.height,
            }

        suspicions = {f"suspicions.{party}": count for party, count in self.suspicions().items()}
        return {**self._ask(read), **suspicions}

    def topics(self) -> dict[str, Topic]:
        """Returns the topics on the ledger, by name."""
        return self._ask(self._core.follower.ledger.topics)

    def suspicions(self) -> dict[str, int]:
        """Returns how often each storage party gave a wrong answer, or none in time."""
        return self._ask(lambda: dict(self._core.standing.counts))

    # Opening and closing.

    async def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Commits pulled events if commits are automatic, leaves the group, and closes all connections."""
        if not self._opened:
            return
        try:
            async with asyncio.timeout(timeout):
                await self._say_goodbye()
        except (TimeoutError, EnvironmentFailure):
            pass
        finally:
            self._opened = False
            self._driver.feed(lambda now_ms: self._core.close())
            await self._driver.close()
            await asyncio.to_thread(self._plain.close)

    async def _say_goodbye(self) -> None:
        if self._options.group is None:
            return
        with self._driver.lock:
            automatic = self._options.auto_commit_ms is not None and bool(self._core.assignment())
            ticket = self._core.commit() if automatic else None
            leaving = self._core.leave()
        for each in (ticket, leaving):
            if each is not None and not each.done:
                try:
                    await self._settled(each, CLOSE_TIMEOUT_S)
                except EnvironmentFailure:
                    continue

    def _require_open(self) -> None:
        if not self._opened:
            raise ClosedError("a consumer is opened before it is used: `with consumer:`")
        if self._driver.crash is not None:
            raise self._driver.crash

    def _ask(self, call: Callable[[], Value]) -> Value:
        self._require_open()
        with self._driver.lock:
            return call()

    def _feed(self, call: Callable[[int], list[Output]]) -> None:
        self._require_open()
        self._driver.feed(call)

    # The core's outputs.

    def _perform(self, wanted: Sequence[Output]) -> None:
        for output in wanted:
            match output:
                case outputs.Ready():
                    self._arrived_loop.set()
                    self.arrived.set()
                case outputs.Fetch():
                    self._driver.spawn(self._fetch(output))
                case outputs.FetchPlain():
                    self._driver.spawn(self._fetch_plain(output))
                case outputs.AskAbsence():
                    self._driver.spawn(self._ask_absence(output))
                case outputs.Submit():
                    self._driver.spawn(self._submit(output))
                case outputs.Settle(ticket):
                    if ticket in self._waiting:
                        self._waiting[ticket].set()
                case _:
                    assert_never(output)

    async def _fetch(self, wanted: outputs.Fetch) -> None:
        core = self._core
        try:
            answer = await self._party(wanted.party).fetch_bytes(wanted.digest)
        except FAILURES as error:
            why = str(error) or "no answer"
            self._driver.feed(lambda now_ms: core.fetch_failed(wanted, why, now_ms))
        else:
            self._driver.feed(lambda now_ms: core.fetched(wanted, answer, now_ms))

    async def _fetch_plain(self, wanted: outputs.FetchPlain) -> None:
        place = wanted.place
        part: Answer | None = None
        if self._plain.has_moved(place):
            moved = [(place.topic, place.partition)]
            self._driver.feed(lambda now_ms: self._core.seek_to(moved, Start.BEGINNING, now_ms))
            return
        try:
            source = self._plain.find(place.topic) or self._party(wanted.party)
            part = await source.fetch_plain(place, wanted.offset, wanted.bytes_max, wanted.wait_ms)
        except FAILURES as error:
            _LOGGER.info("%s does not answer: %s", wanted.party, error)
        except (ModelError, EnvironmentFailure) as failure:
            part = failure
        self._driver.feed(lambda now_ms: self._core.fetched_plain(wanted, part, now_ms))

    async def _ask_absence(self, wanted: outputs.AskAbsence) -> None:
        try:
            answer = await self._party(wanted.party).absence(wanted.signed, wanted.certificate)
            statement = None if isinstance(answer, Below) else answer
        except FAILURES:
            statement = None
        self._driver.feed(lambda now_ms: self._core.absent(wanted, statement))

    async def _submit(self, wanted: outputs.Submit) -> None:
        # The answer is only a hint: a block decides, and other validators are asked after a while.
        with suppress(*FAILURES):
            await self._driver.channels.ordering.submit(wanted.validator, wanted.transaction)


class KabisConsumer(Blocking[AsyncKabisConsumer]):
    """A consumer for programs without an event loop; `with` opens and closes it."""

    def __init__(
        self,
        genesis: Genesis,
        author: Author | None,
        connect: Connect,
        options: ConsumerOptions = ConsumerOptions(),  # noqa: B008 (frozen)
    ) -> None:
        inner = AsyncKabisConsumer(genesis, author, connect, options)
        super().__init__(inner, f"kabis-consumer-{options.group}-{options.instance}")

    subscribe = in_loop(AsyncKabisConsumer.subscribe)
    unsubscribe = in_loop(AsyncKabisConsumer.unsubscribe)
    assign = in_loop(AsyncKabisConsumer.assign)
    assignment = directly(AsyncKabisConsumer.assignment)

    def pull(self, timeout: float = 0.0, max_events: int = EVENTS_MAX) -> list[Consumed]:
        """Returns the next events as soon as there are any, or none after the timeout."""
        deadline_s = time.monotonic() + timeout
        while True:
            self._inner.arrived.clear()
            events = self._inner.pull_nowait(max_events)
            left_s = deadline_s - time.monotonic()
            if events or left_s <= 0:
                return events
            self._inner.arrived.wait(left_s)

    position = directly(AsyncKabisConsumer.position)
    seek = in_loop(AsyncKabisConsumer.seek)
    seek_to_beginning = in_loop(AsyncKabisConsumer.seek_to_beginning)
    seek_to_end = in_loop(AsyncKabisConsumer.seek_to_end)
    pause = directly(AsyncKabisConsumer.pause)
    resume = in_loop(AsyncKabisConsumer.resume)
    paused = directly(AsyncKabisConsumer.paused)
    commit = awaited(AsyncKabisConsumer.commit)
    committed = directly(AsyncKabisConsumer.committed)
    beginning_offsets = awaited(AsyncKabisConsumer.beginning_offsets)
    end_offsets = awaited(AsyncKabisConsumer.end_offsets)
    offsets_for_times = directly(AsyncKabisConsumer.offsets_for_times)
    metrics = directly(AsyncKabisConsumer.metrics)
    topics = directly(AsyncKabisConsumer.topics)
    suspicions = directly(AsyncKabisConsumer.suspicions)

    def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Commits pulled events if commits are automatic, leaves the group, and closes all connections."""
        self._end(timeout)
