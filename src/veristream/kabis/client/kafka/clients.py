"""The part of Kafka that producers and consumers see: which topics are there, and how to open them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from veristream.errors import EnvironmentFailure
from veristream.kabis.client.options import ProducerOptions
from veristream.kabis.client.pushes import Parcel
from veristream.kabis.kafka.settings import KafkaSettings
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.protocol.partitions import PartitionName

if TYPE_CHECKING:
    from veristream.kabis.client.kafka.pulling import KafkaPuller
    from veristream.kabis.client.kafka.pushing import KafkaPusher, KafkaTopic


class KafkaTopics:
    """The topics that are not validated, whose events a producer passes straight to Kafka.

    `told` is called whenever there is room again. All methods but `open` and `refresh` are thread-safe.
    """

    def __init__(self, ledger: Ledger, options: ProducerOptions, told: Callable[[], None]) -> None:
        self.topics: dict[str, KafkaTopic] = {}
        self._ledger = ledger
        self._options = options
        self._told = told
        self._clusters: Mapping[str, KafkaSettings] = {}
        self._pushers: dict[str, KafkaPusher] = {}
        self._opening = threading.Lock()

    def open(self, clusters: Mapping[str, KafkaSettings]) -> None:
        """Sets the Kafka cluster of each storage party; there are none if the logs are on disk."""
        self._clusters = clusters

    def applies_to(self, topic: str) -> bool:
        """Whether a topic's events go straight to Kafka now."""
        policy = self._ledger.topic(topic) if self._clusters else None
        return policy is not None and not policy.validated

    def find(self, topic: str) -> KafkaTopic:
        """Returns the topic in its cluster; connects to Kafka the first time."""
        policy = self._ledger.topic(topic)
        assert policy is not None, "only topics of the ledger are pushed to"
        party = self._ledger.memberships.party_of(topic)
        with self._opening:
            pusher = self._pushers.get(party)
            if pusher is None:
                pusher = self._pushers[party] = self._connect(party)
            if topic not in self.topics:
                sealer = self._options.sealers.get(topic)
                self.topics[topic] = pusher.topic(topic, policy.partitions, sealer)
            return self.topics[topic]

    def _connect(self, party: str) -> KafkaPusher:
        try:
            from veristream.kabis.client.kafka.pushing import KafkaPusher
        except ModuleNotFoundError as error:
            raise client_missing() from error
        return KafkaPusher(self._clusters[party], self._options, self._told)

    def refresh(self) -> None:
        """Forgets topics whose policy has changed on the ledger."""
        for name, topic in list(self.topics.items()):
            policy = self._ledger.topic(name)
            if policy is None or policy.validated or policy.partitions != len(topic.partitioner.queues):
                del self.topics[name]

    def parcels(self) -> list[Parcel]:
        """Returns all parcels that are not settled, and sends what was held back."""
        return [parcel for pusher in self._pushers.values() for parcel in pusher.parcels()]

    def counts(self) -> dict[str, int]:
        """Returns how many events were pushed, acknowledged and failed, and the bytes in flight."""
        pushers = list(self._pushers.values())
        acknowledged, failed = (
            sum(each.acknowledged for each in pushers),
            sum(each.failed for each in pushers),
        )
        return {
            "pushed": acknowledged + failed,
            "acknowledged": acknowledged,
            "failed": failed,
            "buffered_bytes": sum(each.buffered_bytes for each in pushers),
        }

    def close(self) -> None:
        """Fails what is not acknowledged, and closes all clusters."""
        self.topics.clear()
        for pusher in self._pushers.values():
            pusher.close()


class KafkaSources:
    """The Kafka clusters from which a consumer reads topics that are not validated."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._clusters: Mapping[str, KafkaSettings] = {}
        self._puller: KafkaPuller | None = None
        self._in_kafka: dict[PartitionName, bool] = {}

    def open(self, clusters: Mapping[str, KafkaSettings]) -> None:
        """Sets the Kafka cluster of each storage party; there are none if the logs are on disk."""
        self._clusters = clusters

    def find(self, topic: str) -> KafkaPuller | None:
        """Returns the reader of a topic that is in Kafka, or None if its storage party has it."""
        policy = self._ledger.topic(topic) if self._clusters else None
        if policy is None or policy.validated:
            return None
        if self._puller is None:
            self._puller = self._connect()
        return self._puller

    def has_moved(self, place: PartitionName) -> bool:
        """Whether the partition has moved to or from Kafka since the last call, so offsets differ."""
        before = self._in_kafka.get(place)
        self._in_kafka[place] = self.find(place.topic) is not None
        return before is not None and before != self._in_kafka[place]

    def _connect(self) -> KafkaPuller:
        try:
            from veristream.kabis.client.kafka.pulling import KafkaPuller
        except ModuleNotFoundError as error:
            raise client_missing() from error
        return KafkaPuller(self._cluster_of, self._count_partitions)

    def _cluster_of(self, topic: str) -> KafkaSettings:
        return self._clusters[self._ledger.memberships.party_of(topic)]

    def _count_partitions(self, topic: str) -> int:
        policy = self._ledger.topic(topic)
        assert policy is not None, "only topics of the ledger are read"
        return policy.partitions

    def close(self) -> None:
        """Closes all clusters."""
        if self._puller is not None:
            self._puller.close()


def client_missing() -> EnvironmentFailure:
    """Returns the error that Kafka's client is not installed."""
    return EnvironmentFailure(
        "the parties' logs are in Kafka, which needs its client", "pip install 'veristream[kafka]'"
    )
