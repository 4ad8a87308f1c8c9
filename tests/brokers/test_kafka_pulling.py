"""One Kafka client reads many partitions, each from the requested offset, however often that changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest
from confluent_kafka import Producer, TopicPartition

from veristream.kabis.client.consumed import Consumed, PlainEvents
from veristream.kabis.client.kafka import pulling
from veristream.kabis.client.kafka.pulling import KafkaPuller
from veristream.kabis.kafka.settings import KafkaSettings
from veristream.kabis.kafka.topics import Topics
from veristream.kabis.protocol.answers import Below
from veristream.kabis.protocol.partitions import PartitionName
from veristream.kabis.protocol.plain import FROM_END

pytestmark = [pytest.mark.brokers, pytest.mark.xdist_group("kafka")]

PARTITIONS = 4
EVENTS = 5_000
WAIT_MS = 30_000
BYTES = 1 << 20


@pytest.fixture
def full(kafka: KafkaSettings, topic: str) -> str:
    """A topic with the given number of events in each partition."""
    Topics(kafka).require(topic, PARTITIONS, {})
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "acks": "all", "enable.idempotence": True})
    for number in range(EVENTS):
        for partition in range(PARTITIONS):
            producer.produce(topic, b"%d/%d" % (partition, number), partition=partition)
    assert producer.flush(60) == 0
    return topic


def use(kafka: KafkaSettings, work: Callable[[KafkaPuller], Awaitable[None]]) -> None:
    async def run() -> None:
        puller = KafkaPuller(lambda topic: kafka, lambda topic: PARTITIONS)
        try:
            await work(puller)
        finally:
            await asyncio.to_thread(puller.close)

    asyncio.run(run())


async def read(puller: KafkaPuller, place: PartitionName, start: int, count: int) -> list[Consumed]:
    """Reads `count` events from an offset on, repeating the request until there are enough."""
    events: list[Consumed] = []
    while len(events) < count:
        part = await puller.fetch_plain(place, start + len(events), BYTES, WAIT_MS)
        assert isinstance(part, PlainEvents) and part.events, "they are there"
        assert part.next_offset == part.events[-1].index + 1
        events += part.events
    return events


def shown(events: Sequence[Consumed]) -> list[tuple[int, bytes | None]]:
    return [(event.index, event.value) for event in events]


def wanted(partition: int, start: int, end: int) -> list[tuple[int, bytes]]:
    return [(number, b"%d/%d" % (partition, number)) for number in range(start, end)]


def test_every_partition_is_whole_and_in_order(kafka: KafkaSettings, full: str) -> None:
    async def work(puller: KafkaPuller) -> None:
        places = [PartitionName(full, number) for number in range(PARTITIONS)]
        found = await asyncio.gather(*(read(puller, place, 0, EVENTS) for place in places))
        for partition, events in enumerate(found):
            assert shown(events) == wanted(partition, 0, EVENTS)
            assert {(event.topic, event.partition) for event in events} == {(full, partition)}

    use(kafka, work)


@pytest.mark.parametrize("offsets", [(0, 4_000, 10, 4_999, 0), (2_500, 2_499, 2_500)])
def test_reading_turns_back_and_forth(kafka: KafkaSettings, full: str, offsets: tuple[int, ...]) -> None:
    """Messages in flight at a seek are not returned for the new offset."""

    async def work(puller: KafkaPuller) -> None:
        for offset in offsets:
            for partition in range(PARTITIONS):
                part = await puller.fetch_plain(PartitionName(full, partition), offset, BYTES, WAIT_MS)
                assert isinstance(part, PlainEvents) and part.events
                assert shown(part.events) == wanted(partition, offset, offset + len(part.events))

    use(kafka, work)


def test_what_nobody_takes_is_let_go_and_taken_up_again(
    kafka: KafkaSettings, full: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first partition is requested once, and then does not delay the others."""
    monkeypatch.setattr(pulling, "HELD_BYTES", 100)
    monkeypatch.setattr(pulling, "REST_S", 0.01)
    monkeypatch.setattr(pulling, "EVENTS_MAX", 700)

    async def work(puller: KafkaPuller) -> None:
        first, second = PartitionName(full, 0), PartitionName(full, 1)
        begun = await puller.fetch_plain(first, 0, BYTES, WAIT_MS)
        assert isinstance(begun, PlainEvents)
        events = await read(puller, second, 0, EVENTS)
        assert shown(events) == wanted(1, 0, EVENTS)
        rest = await read(puller, first, begun.next_offset, EVENTS - begun.next_offset)
        assert shown([*begun.events, *rest]) == wanted(0, 0, EVENTS)

    use(kafka, work)


def test_at_the_end_there_is_nothing_until_something_comes(kafka: KafkaSettings, full: str) -> None:
    async def work(puller: KafkaPuller) -> None:
        place = PartitionName(full, 3)
        assert await puller.fetch_plain(place, FROM_END, BYTES, 0) == PlainEvents([], EVENTS, EVENTS, 0)
        assert await puller.bounds((full, 3)) == (0, EVENTS)
        assert await puller.fetch_plain(place, EVENTS, BYTES, 100) == PlainEvents([], EVENTS, EVENTS, 0)
        waiting = asyncio.create_task(puller.fetch_plain(place, EVENTS, BYTES, WAIT_MS))
        producer = Producer({"bootstrap.servers": kafka.bootstrap})
        producer.produce(full, b"late", partition=3)
        assert await asyncio.to_thread(producer.flush, 60) == 0
        part = await waiting
        assert isinstance(part, PlainEvents) and shown(part.events) == [(EVENTS, b"late")]

    use(kafka, work)


def test_below_what_is_kept_the_mark_is_told(kafka: KafkaSettings, full: str) -> None:
    topics = Topics(kafka)

    async def work(puller: KafkaPuller) -> None:
        place = TopicPartition(full, 0, 40)
        topics.admin.delete_records([place])[place].result()
        assert await puller.fetch_plain(PartitionName(full, 0), 39, BYTES, WAIT_MS) == Below(40)
        events = await read(puller, PartitionName(full, 0), 40, EVENTS - 40)
        assert shown(events) == wanted(0, 40, EVENTS)

    use(kafka, work)
