"""Producers: push events, learn their indices, and get a receipt for each.

    with KabisProducer(genesis, author, connect) as producer:
        pushed = producer.push(Record("orders", b"two pears", key=b"anna"))
        done = pushed.result()            # waits until the event is admitted
        done.index                        # its index in the partition, the same for everyone
        export_receipt(done.receipt())    # the proof, for anyone with the genesis

`push` does not wait until the event is admitted: it returns a future, and takes the next event at once. It
waits only while `buffer_bytes` are in flight, which slows a producer down to the pace of the validators.

`AsyncKabisProducer` is the same in an event loop: `await producer.push(record)` returns the future, and
`await` on that waits for the acknowledgement.

A producer that is restarted needs a `journal`, which is a folder of its own: see `producer/core.py`.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import assert_never

from veristream.kabis.channels.failures import FAILURES
from veristream.kabis.channels.interfaces import Connect
from veristream.kabis.client.authority import find_key_problem
from veristream.kabis.client.clock import monotonic_ms
from veristream.kabis.client.driver import OPEN_TIMEOUT_S, AsyncClient, Blocking, Driver, awaited, directly
from veristream.kabis.client.errors import BufferFullError, ClosedError
from veristream.kabis.client.kafka.clients import KafkaTopics
from veristream.kabis.client.options import ProducerOptions
from veristream.kabis.client.producer import outputs
from veristream.kabis.client.producer.core import ProducerCore
from veristream.kabis.client.producer.journal import Journal, JournalError
from veristream.kabis.client.producer.outputs import Output
from veristream.kabis.client.producer.window import find_refusal
from veristream.kabis.client.pushes import Parcel, Pushed, PushedMany
from veristream.kabis.ledger.follower import Follower
from veristream.kabis.ledger.state import Topic
from veristream.kabis.protocol.answers import Below
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.partitions import PartitionName
from veristream.kabis.protocol.plain import SESSION_BYTES
from veristream.kabis.protocol.records import Record
from veristream.kabis.protocol.transactions import Author

CLOSE_TIMEOUT_S = 30.0
LATE_STORES_S = 5.0
"""How long a closing producer waits for reachable parties that no acknowledgement depends on."""
LOOK_EVERY_S = 0.1


class AsyncKabisProducer(AsyncClient[Output]):
    """A producer in an event loop; `async with` opens and closes it."""

    def __init__(
        self,
        genesis: Genesis,
        author: Author,
        connect: Connect,
        options: ProducerOptions = ProducerOptions(),  # noqa: B008 (frozen)
        journal: Path | None = None,
    ) -> None:
        self._connect = connect
        self._options = options
        self._author = author
        self._journal = None if journal is None else Journal(journal)
        self.room = threading.Condition()
        self.wanting = 0
        self._room_loop: asyncio.Event
        self._opened = False
        self._stores: dict[asyncio.Task[None], str] = {}
        batches = None if self._journal is None else self._journal.batches
        session = os.urandom(SESSION_BYTES)
        guard = threading.Lock()
        self._core = ProducerCore(Follower(genesis), author, options, session, batches, guard)
        self._driver: Driver[Output] = Driver(self._core, self._perform)
        self._driver.lock = guard
        self.plain = KafkaTopics(self._core.follower.ledger, options, self._tell_room)

    async def open(self, timeout: float = OPEN_TIMEOUT_S) -> None:
        """Connects and follows the chain to its end; raises StalledError if nothing comes for so long."""
        self._room_loop = asyncio.Event()
        await self._driver.open(self._connect, timeout)
        self.plain.open(self._driver.channels.kafka)
        self._opened = True
        self._driver.feed(self._core.start)

    async def push(self, record: Record, timeout: float | None = None) -> Pushed:
        """Takes an event and returns its future; waits while the buffer is full, up to the timeout."""
        try:
            if record.topic not in self.plain.topics and self.plain.applies_to(record.topic):
                await asyncio.to_thread(self.plain.find, record.topic)
            return self.push_nowait(record)
        except BufferFullError as full:
            try:
                async with asyncio.timeout(timeout):
                    return await self._push_later(record)
            except TimeoutError:
                raise full from None

    async def push_all(self, topic: str, values: Sequence[bytes], key: bytes | None = None) -> PushedMany:
        """Takes events of one topic and key and returns one future; waits while the buffer is full."""
        many, taken = PushedMany(), 0
        while taken < len(values):
            count = self.push_together(topic, values[taken:], key, many)
            if count == 0:
                many.add(await self.push(Record(topic, values[taken], key)))
            taken += count or 1
        return many

    def push_together(
        self, topic: str, values: Sequence[bytes], key: bytes | None, many: PushedMany
    ) -> int:
        """Takes some events at once if the topic is in Kafka; returns how many. From any thread."""
        plain = self.plain.topics.get(topic)
        return 0 if plain is None else plain.push_all(values, key, many)

    async def _push_later(self, record: Record) -> Pushed:
        self.wanting += 1
        try:
            while True:
                self._room_loop.clear()
                with suppress(BufferFullError):
                    return self.push_nowait(record)
                await self._room_loop.wait()
        finally:
            self.wanting -= 1

    def push_nowait(self, record: Record) -> Pushed:
        """Takes an event and returns its future, or raises BufferFullError. From any thread.

        The first event of a topic that is not validated waits for Kafka, if the topic is there.
        """
        plain = self.plain.topics.get(record.topic)
        if plain is not None:
            return plain.push(record)
        driver, core = self._driver, self._core
        if not self._opened:
            raise ClosedError("a producer is opened before it is used: `with producer:`")
        if driver.crash is not None:
            raise driver.crash
        if self.plain.applies_to(record.topic):
            return self.plain.find(record.topic).push(record)
        with driver.lock:
            pushed = core.push(record, monotonic_ms())
            if core.attention:
                core.attention = False
                driver.wake()
        return pushed

    async def flush(self, timeout: float | None = None) -> None:
        """Waits until everything pushed so far is acknowledged or has failed."""
        self._driver.feed(self._core.flush)
        with self._driver.lock:
            parcels = self._core.parcels()
        parcels += await asyncio.to_thread(self.plain.parcels)
        async with asyncio.timeout(timeout):
            for parcel in parcels:
                await _wait_for(parcel)

    async def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Flushes, then closes; events that are not acknowledged by then fail.

        F + 1 storage parties have every acknowledged event. Other parties that can be reached get a moment
        more to store it, and no longer, because one of them may never answer.
        """
        opened, self._opened = self._opened, False
        try:
            if opened:
                with suppress(TimeoutError):
                    await self.flush(timeout)
                    async with asyncio.timeout(min(timeout, LATE_STORES_S)):
                        await self._late_stores()
                self._driver.feed(lambda now_ms: self._core.close())
                await self._driver.close()
        finally:
            await asyncio.to_thread(self.plain.close)
            if self._journal is not None:
                self._journal.close()

    async def _late_stores(self) -> None:
        """Waits until every reachable party has stored what was sent to it."""
        while late := [task for task, name in self._stores.items() if self._party(name).problem is None]:
            await asyncio.wait(late, timeout=LOOK_EVERY_S)

    def partitions_for(self, topic: str) -> int:
        """Returns the number of a topic's partitions."""
        with self._driver.lock:
            return self._core.partitions_for(topic)

    def topics(self) -> dict[str, Topic]:
        """Returns the topics on the ledger, by name."""
        with self._driver.lock:
            return self._core.follower.ledger.topics()

    def require_valid_key(self) -> None:
        """Raises KeyEndedError if the ledger admits nothing that this producer signs."""
        with self._driver.lock:
            problem = find_key_problem(self._core.follower.ledger, self._author)
        if problem is not None:
            raise problem

    def sequence(self, topic: str, partition: int) -> int | None:
        """Returns how many events of this producer a partition has; None while some are in flight."""
        with self._driver.lock:
            if self._core.busy:
                return None
            return self._core.follower.ledger.cursor(self._author.name, topic, partition).next_sequence

    def metrics(self) -> Mapping[str, int]:
        """Returns counts of what the producer did, and how many bytes are in flight."""
        with self._driver.lock:
            core = self._core
            height = core.follower.ledger.height
            counted = {**asdict(core.counters), "buffered_bytes": core.buffered_bytes, "height": height}
        for name, count in self.plain.counts().items():
            counted[name] += count
        return counted

    # The core's outputs.

    def _perform(self, wanted: Sequence[Output]) -> None:
        to_write: list[outputs.Write] = []
        for output in wanted:
            match output:
                case outputs.Settle(parcel, fate):
                    parcel.settle(fate)
                case outputs.Write():
                    to_write.append(output)
                case outputs.Store():
                    task = self._driver.spawn(self._store(output))
                    self._stores[task] = output.party
                    task.add_done_callback(self._stores.pop)
                case outputs.Submit():
                    self._driver.spawn(self._submit(output))
                case outputs.Append():
                    self._driver.spawn(self._append(output))
                case outputs.Recover():
                    self._driver.spawn(self._recover(output))
                case outputs.Admitted(digest):
                    if self._journal is not None:
                        self._journal.forget(digest)
                case _:
                    assert_never(output)
        if to_write:
            self._driver.spawn(self._write(to_write))
        self.plain.refresh()
        if any(isinstance(output, outputs.Settle) for output in wanted):
            self._tell_room()

    def _tell_room(self) -> None:
        """Wakes those who wait to push. From any thread."""
        if not self.wanting:  # which they say before they try
            return
        self._driver.call_soon(self._room_loop.set)
        with self.room:
            self.room.notify_all()

    async def _write(self, wanted: Sequence[outputs.Write]) -> None:
        assert self._journal is not None, "only a producer with a journal writes"
        digests = [each.digest for each in wanted]
        try:
            await asyncio.to_thread(self._journal.write, [(each.digest, each.data) for each in wanted])
        except JournalError as error:
            why = error
            self._driver.feed(lambda now_ms: self._core.close(why))
            return
        self._driver.feed(lambda now_ms: self._core.journaled(digests, now_ms))

    async def _store(self, wanted: outputs.Store) -> None:
        place, digest, core = wanted.place, wanted.digest, self._core
        try:
            receipt = await self._party(wanted.party).store(wanted.data, digest)
        except FAILURES as error:
            why = str(error)
            self._driver.feed(lambda now_ms: core.store_failed(place, wanted.party, digest, why, now_ms))
        else:
            self._driver.feed(lambda now_ms: core.stored(place, wanted.party, receipt, now_ms))

    async def _submit(self, wanted: outputs.Submit) -> None:
        try:
            outcome = await self._driver.channels.ordering.submit(wanted.validator, wanted.transaction)
            why = find_refusal(outcome)
        except FAILURES as error:
            why = str(error) or "no answer"
        if why:
            self._driver.feed(lambda now_ms: self._core.refused(wanted.place, wanted.digest, why, now_ms))

    async def _append(self, wanted: outputs.Append) -> None:
        append, core = wanted.append, self._core
        try:
            offset = await self._party(wanted.party).append_plain(append)
        except FAILURES as error:
            why = str(error)
            self._driver.feed(lambda now_ms: core.append_failed(append, wanted.party, why, now_ms))
        else:
            self._driver.feed(lambda now_ms: core.appended(append, offset, now_ms))

    async def _recover(self, wanted: outputs.Recover) -> None:
        stream = wanted.stream
        batches: tuple[bytes, ...] | None
        try:
            found = await self._party(wanted.party).fetch_range(stream, wanted.first_sequence)
            batches = () if isinstance(found, Below) else found
        except FAILURES:
            batches = None
        place = PartitionName(stream.topic, stream.partition)
        self._driver.feed(lambda now_ms: self._core.recovered(place, wanted.party, batches, now_ms))


async def _wait_for(parcel: Parcel) -> None:
    """Waits for the parcel's fate, whatever it is."""
    loop = asyncio.get_running_loop()
    settled = asyncio.Event()
    parcel.call_when_settled(lambda: loop.call_soon_threadsafe(settled.set))
    await settled.wait()


class KabisProducer(Blocking[AsyncKabisProducer]):
    """A producer for programs without an event loop; `with` opens and closes it.

    All methods may be called from several threads. The producer works in its own thread.
    """

    def __init__(
        self,
        genesis: Genesis,
        author: Author,
        connect: Connect,
        options: ProducerOptions = ProducerOptions(),  # noqa: B008 (frozen)
        journal: Path | None = None,
    ) -> None:
        inner = AsyncKabisProducer(genesis, author, connect, options, journal)
        self._plain = inner.plain.topics
        super().__init__(inner, f"kabis-producer-{author.name}")

    def push(self, record: Record, timeout: float | None = None) -> Pushed:
        """Takes an event and returns its future; waits while the buffer is full, up to the timeout."""
        plain = self._plain.get(record.topic)
        try:
            return self._inner.push_nowait(record) if plain is None else plain.push(record)
        except BufferFullError:
            return self._push_later(record, None if timeout is None else time.monotonic() + timeout)

    def push_all(self, topic: str, values: Sequence[bytes], key: bytes | None = None) -> PushedMany:
        """Takes events of one topic and key and returns one future; waits while the buffer is full.

        If the topic is in Kafka and not validated, that costs less than one push for each event.
        """
        many, taken = PushedMany(), 0
        while taken < len(values):
            count = self._inner.push_together(topic, values[taken:], key, many)
            if count == 0:
                many.add(self.push(Record(topic, values[taken], key)))
            taken += count or 1
        return many

    def _push_later(self, record: Record, deadline_s: float | None) -> Pushed:
        room = self._inner.room
        with room:
            self._inner.wanting += 1
            try:
                while True:
                    try:
                        return self._inner.push_nowait(record)
                    except BufferFullError:
                        left_s = None if deadline_s is None else deadline_s - time.monotonic()
                        if (left_s is not None and left_s <= 0) or not room.wait(left_s):
                            raise
            finally:
                self._inner.wanting -= 1

    flush = awaited(AsyncKabisProducer.flush)
    partitions_for = directly(AsyncKabisProducer.partitions_for)
    topics = directly(AsyncKabisProducer.topics)
    require_valid_key = directly(AsyncKabisProducer.require_valid_key)
    sequence = directly(AsyncKabisProducer.sequence)
    metrics = directly(AsyncKabisProducer.metrics)

    def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Flushes, then closes; events that are not acknowledged by then fail."""
        self._end(timeout)
