"""Planning and reading on a cluster in memory: what a driver and its tasks do, without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.kabis.chain import STORAGE, key_of
from tests.kabis.client.world import author_of, connect_to, make_cluster, producing
from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.channels.interfaces import Channels, Storage
from veristream.kabis.client.consumed import Consumed, Place
from veristream.kabis.client.errors import BelowLowWaterError, UnknownTopicError
from veristream.kabis.cluster.faults import StorageFault
from veristream.kabis.kafka.settings import KafkaSettings
from veristream.kabis.protocol.actions import LowWater, SetTopic
from veristream.kabis.protocol.members import Memberships
from veristream.kabis.protocol.outcomes import Done
from veristream.kabis.protocol.partitions import PartitionName
from veristream.kabis.protocol.records import Record
from veristream.kabis.spark.fetch import reading
from veristream.kabis.spark.plan import AdmittedPart, Bounds, Part, PlainPart, Range, find_ranges
from veristream.kabis.spark.watch import Watch
from veristream_testing.simulation.memory import MemoryCluster

COUNT = 40


@contextmanager
def watching(cluster: MemoryCluster, *topics: str, validate: bool = True) -> Iterator[Watch]:
    connect = connect_to(cluster, author_of("bob"))
    with Watch(cluster.genesis, connect, topics, validate=validate, timeout_s=5.0) as watch:
        yield watch


def fill(cluster: MemoryCluster, *topics: str, batch_events: int = 3) -> None:
    """Pushes COUNT events to each topic, one partition after the other in turn."""
    with producing(cluster, batch_events=batch_events, in_flight=1) as producer:
        for topic in topics:
            partitions = producer.partitions_for(topic)
            for number in range(COUNT):
                value = f"{topic} {number}".encode()
                producer.push(Record(topic, value, key=b"k", partition=number % partitions))


def pushed(topic: str, partitions: int) -> dict[Place, list[bytes]]:
    return {
        (topic, partition): [
            f"{topic} {number}".encode() for number in range(COUNT) if number % partitions == partition
        ]
        for partition in range(partitions)
    }


def read(cluster: MemoryCluster, part: Part, timeout_s: float = 5.0) -> list[Consumed]:
    """As a task does: the part travels to it."""
    sent = pickle.loads(pickle.dumps(part))

    async def reach() -> Sequence[Storage]:
        return cluster.channels(author_of("bob")).storage

    with reading(reach, sent, timeout_s) as events:
        return [event for some in events for event in some]


def read_all(
    cluster: MemoryCluster, *topics: str, validate: bool = True, rows_max: int = 7
) -> list[Consumed]:
    with watching(cluster, *topics, validate=validate) as watch:
        bounds = watch.refresh()
        starts = {place: each.first for place, each in bounds.items()}
        ends = {place: each.end for place, each in bounds.items()}
        parts = watch.plan(find_ranges(starts, ends), rows_max)
    return [event for part in parts for event in read(cluster, part)]


def by_place(events: list[Consumed]) -> dict[Place, list[bytes | None]]:
    found: dict[Place, list[bytes | None]] = {}
    for event in events:
        values = found.setdefault((event.topic, event.partition), [])
        assert event.index == len(values)
        values.append(event.value)
    return found


@pytest.mark.parametrize("validate", [True, False])
def test_every_event_is_read_once_in_order(validate: bool) -> None:
    cluster = make_cluster()
    fill(cluster, "orders")
    events = read_all(cluster, "orders", validate=validate)
    assert by_place(events) == pushed("orders", 2)
    assert {event.producer for event in events} == {"alice" if validate else None}
    assert {event.validated for event in events} == {validate}


@pytest.mark.parametrize(
    "fault",
    [
        StorageFault.SILENT,
        StorageFault.SUBSTITUTE,
        StorageFault.ALTER,
        StorageFault.GARBAGE,
    ],
)
@pytest.mark.parametrize("liar", STORAGE)
def test_a_party_that_lies_is_left_for_another(fault: StorageFault, liar: str) -> None:
    cluster = make_cluster()
    fill(cluster, "orders")
    cluster.parties[liar].fault = fault
    assert by_place(read_all(cluster, "orders")) == pushed("orders", 2)


def test_when_all_lie_nothing_is_believed() -> None:
    cluster = make_cluster()
    fill(cluster, "orders")
    for party in cluster.parties.values():
        party.fault = StorageFault.ALTER
    with watching(cluster, "orders") as watch:
        watch.refresh()
        (part,) = watch.plan([Range(("orders", 1), 4, 6)], 10)
    with pytest.raises(EnvironmentFailure) as caught:
        read(cluster, part, timeout_s=0.3)
    assert caught.value.message.startswith(
        "no storage party returns the batch of orders-1 at index 3 (s0: the events do not match"
    )


def test_a_header_that_its_producer_never_signed_stops_the_read() -> None:
    cluster = make_cluster()
    fill(cluster, "orders")
    with watching(cluster, "orders") as watch:
        watch.refresh()
        (part,) = watch.plan([Range(("orders", 0), 0, 2)], 10)
    assert isinstance(part, AdmittedPart)
    forged = replace(part, keys={("alice", 0): key_of("bob").public})
    with pytest.raises(ModelError, match="at index 0 that alice never signed"):
        read(cluster, forged)


def test_only_the_events_of_the_range_are_read() -> None:
    cluster = make_cluster()
    fill(cluster, "orders")
    with watching(cluster, "orders") as watch:
        watch.refresh()
        (part,) = watch.plan([Range(("orders", 0), 4, 8)], 100)
    assert [event.index for event in read(cluster, part)] == [4, 5, 6, 7]
    place = ("orders", 1)
    believed = PlainPart(Range(place, 4, 8), Memberships(cluster.genesis.members).party_of("orders"))
    assert [event.index for event in read(cluster, believed)] == [4, 5, 6, 7]


def test_table_1(caplog: pytest.LogCaptureFixture) -> None:
    cluster = make_cluster()
    fill(cluster, "logs")
    assert by_place(read_all(cluster, "logs", validate=False)) == pushed("logs", 1)
    assert caplog.messages == []
    assert read_all(cluster, "logs") == []
    (warning,) = caplog.messages
    assert warning == (
        "logs is not validated, so guarantee=extended returns no events pushed to it now;"
        " use guarantee=basic to read it"
    )


def test_one_party_is_believed_where_nothing_is_validated() -> None:
    cluster = make_cluster()
    fill(cluster, "logs")
    cluster.parties[Memberships(cluster.genesis.members).party_of("logs")].fault = StorageFault.SILENT
    with pytest.raises(EnvironmentFailure, match=r"the storage party s. of logs does not answer"):
        read_all(cluster, "logs", validate=False)


def test_what_stands_in_kafka_is_read_from_there() -> None:
    cluster = make_cluster()

    async def connect() -> Channels:
        return replace(cluster.channels(author_of("bob")), kafka={"s0": KafkaSettings("127.0.0.1:9092")})

    with Watch(cluster.genesis, connect, ["orders", "logs"], validate=False, timeout_s=5.0) as watch:
        with pytest.raises(ModelError, match="logs is not validated and is stored in Kafka") as caught:
            watch.refresh()
        assert caught.value.hint.startswith("read it with Spark's format('kafka')")


def test_partitions_and_marks_are_noticed_as_they_change() -> None:
    cluster = make_cluster()
    with watching(cluster, "orders") as watch:
        assert watch.refresh() == {("orders", 0): Bounds(0, 0), ("orders", 1): Bounds(0, 0)}
        fill(cluster, "orders")
        assert cluster.act("admin", SetTopic("orders", 3, validated=True)) == Done()
        assert cluster.act("admin", LowWater("orders", 1, 5)) == Done()
        assert watch.refresh() == {
            ("orders", 0): Bounds(0, 20),
            ("orders", 1): Bounds(5, 20),
            ("orders", 2): Bounds(0, 0),
        }


def test_what_a_party_let_go_is_not_read() -> None:
    cluster = make_cluster()
    fill(cluster, "logs")
    party = cluster.parties[Memberships(cluster.genesis.members).party_of("logs")]
    party.core.raise_low_water(PartitionName("logs", 0), 10)
    party.log.sync()
    with watching(cluster, "logs", validate=False) as watch:
        bounds = watch.refresh()
        (part,) = watch.plan([Range(("logs", 0), 0, 20)], 100)
    low_water = bounds["logs", 0].first
    assert 0 < low_water <= 10
    assert bounds["logs", 0].end == COUNT
    with pytest.raises(BelowLowWaterError, match=f"index 0 is below the low-water mark {low_water}"):
        read(cluster, part)


def test_a_topic_that_is_not_there() -> None:
    with (
        watching(make_cluster(), "order") as watch,
        pytest.raises(UnknownTopicError, match="order: no such"),
    ):
        watch.refresh()
