"""A cluster as the Spark tests use it: topics made and filled, and read and written by Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from veristream.kabis.client.administration import act_all
from veristream.kabis.client.options import ProducerOptions
from veristream.kabis.client.pushes import Acknowledged
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import ADMIN, ClusterFolder
from veristream.kabis.protocol.actions import SetTopic
from veristream.kabis.protocol.members import Memberships
from veristream.kabis.protocol.records import Record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

LIAR = "storage-1"
PATIENCE_S = 900
"""How long anything may take before a test fails: a busy machine is no fault."""

Event = tuple[str, int, int, bytes | None]
"""Topic, partition, index, value."""


@dataclass(frozen=True, slots=True)
class Lake:
    """A session and a cluster."""

    session: SparkSession
    folder: ClusterFolder

    @property
    def data(self) -> str:
        return str(self.folder.path)

    @property
    def access(self) -> Access:
        return Access(self.folder)

    def set_topic(self, name: str, partitions: int = 1, *, validated: bool = True) -> str:
        access = self.access
        action = SetTopic(name, partitions, validated)
        act_all(access.genesis, access.admin(), access.author(ADMIN), [action])
        return name

    def topic_at(self, party: str, prefix: str) -> str:
        """A name whose one storage party is this one."""
        names = (f"{prefix}-{number}" for number in count())
        return next(
            name for name in names if Memberships(self.access.genesis.members).party_of(name) == party
        )

    def push(self, records: Iterable[Record]) -> list[Acknowledged]:
        # A party may get two batches that are in flight in either order, which a basic topic keeps.
        options = ProducerOptions(batch_events=10, in_flight=1)
        with self.access.producer(options=options) as producer:
            pushed = [producer.push(record) for record in records]
            return [each.result(PATIENCE_S) for each in pushed]

    def fill(self, topic: str, partitions: int, first: int, amount: int) -> list[Event]:
        """Pushes numbered events to the partitions in turn; gives them as they were acknowledged."""
        values = [f"{topic} {number}".encode() for number in range(first, first + amount)]
        records = [
            Record(topic, value, b"k", partition=number % partitions)
            for number, value in enumerate(values, first)
        ]
        done = self.push(records)
        return [
            (topic, each.partition, each.index, value) for each, value in zip(done, values, strict=True)
        ]

    def read(self, topics: str, **options: object) -> DataFrame:
        reader = self.session.read.format("kabis").option("cluster", self.data).option("topics", topics)
        return reader.options(**{name: str(value) for name, value in options.items()}).load()

    def read_stream(self, topics: str, **options: object) -> DataFrame:
        reader = self.session.readStream.format("kabis")
        reader = reader.option("cluster", self.data).option("topics", topics)
        return reader.options(**{name: str(value) for name, value in options.items()}).load()

    def write(self, frame: DataFrame, **options: object) -> None:
        writer = frame.write.format("kabis").mode("append").option("cluster", self.data)
        writer.options(**{name: str(value) for name, value in options.items()}).save()


def finish(query: StreamingQuery) -> list[int]:
    """Waits until a query has ended by itself; gives how many rows each of its batches had."""
    assert query.awaitTermination(PATIENCE_S), "it does not end"
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def events_of(frame: DataFrame) -> list[Event]:
    """The events, in order; each as often as it is there."""
    found = frame.select("topic", "partition", "index", "value").collect()
    return sorted((row[0], row[1], row[2], None if row[3] is None else bytes(row[3])) for row in found)


def altered(events: Sequence[Event]) -> list[Event]:
    """What the liar makes of them."""
    return [(*event[:3], event[3][:-1] + bytes((event[3][-1] ^ 1,))) for event in events if event[3]]
