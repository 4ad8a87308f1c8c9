"""What producers and consumers know of Kafka: which topics go there, and how they are opened."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from veristream.errors import EnvironmentFailure
from veristream.kabis.channels.interfaces import party_of
from veristream.kabis.client.options import ProducerOptions
from veristream.kabis.client.pushes import Parcel
from veristream.kabis.kafka.settings import KafkaSettings
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.partitions import PartitionName

if TYPE_CHECKING:
    from veristream.kabis.client.kafka.pulling import KafkaPuller
    from veristream.kabis.client.kafka.pushing import KafkaPusher, KafkaTopic


class KafkaTopics:
    """The topics that are not validated and whose events a producer hands straight to Kafka.

    `told` is called whenever there is room again. All methods but `open` and `refresh` are for any thread.
    """

    def __init__(
        self, genesis: Genesis, ledger: Ledger, options: ProducerOptions, told: Callable[[], None]
    ) -> None:
        self.topics: dict[str, KafkaTopic] = {}
        self._genesis = genesis
        self._ledger = ledger
        self._options = options
        self._told = told
        self._clusters: Mapping[str, KafkaSettings] = {}
        self._pushers: dict[str, KafkaPusher] = {}
        self._opening = threading.Lock()

    def open(self, clusters: Mapping[str, KafkaSettings]) -> None:
        """Which cluster each storage party has; none if they keep their logs themselves."""
        self._clusters = clusters

    def applies_to(self, topic: str) -> bool:
        """Whether events of a topic go straight to Kafka now."""
        policy = self._ledger.topic(topic) if self._clusters else None
        return policy is not None and not policy.validated

    def find(self, topic: str) -> KafkaTopic:
        """The topic in its cluster; waits for Kafka the first time, and raises what is wrong there."""
        policy = self._ledger.topic(topic)
        assert policy is not None, "only topics of the ledger are pushed to"
        party = party_of(self._genesis, topic)
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
        """Forgets topics whose policy the ledger has changed."""
        for name, topic in list(self.topics.items()):
            policy = self._ledger.topic(name)
            if policy is None or policy.validated or policy.partitions != len(topic.partitioner.queues):
                del self.topics[name]

    def parcels(self) -> list[Parcel]:
        """All that somebody waits for; it leaves now."""
        return [parcel for pusher in self._pushers.values() for parcel in pusher.parcels()]

    def counts(self) -> dict[str, int]:
        """How many events were handed to Kafka and what became of them, and how much is on its way."""
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
        """Fails what is not acknowledged, and lets go of all clusters."""
        self.topics.clear()
        for pusher in self._pushers.values():
            pusher.close()


class KafkaSources:
    """Where a consumer reads topics that are not validated, if that is Kafka."""

    def __init__(self, genesis: Genesis, ledger: Ledger) -> None:
        self._genesis = genesis
        self._ledger = ledger
        self._clusters: Mapping[str, KafkaSettings] = {}
        self._puller: KafkaPuller | None = None
        self._in_kafka: dict[PartitionName, bool] = {}

    def open(self, clusters: Mapping[str, KafkaSettings]) -> None:
        """Which cluster each storage party has; none if they keep their logs themselves."""
        self._clusters = clusters

    def find(self, topic: str) -> KafkaPuller | None:
        """What reads a topic from Kafka; None if its storage party is to be asked."""
        policy = self._ledger.topic(topic) if self._clusters else None
        if policy is None or policy.validated:
            return None
        if self._puller is None:
            self._puller = self._connect()
        return self._puller

    def has_moved(self, place: PartitionName) -> bool:
        """Whether the partition is read from elsewhere than the last time, by offsets of another kind."""
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
        return self._clusters[party_of(self._genesis, topic)]

    def _count_partitions(self, topic: str) -> int:
        policy = self._ledger.topic(topic)
        assert policy is not None, "only topics of the ledger are read"
        return policy.partitions

    def close(self) -> None:
        """Lets go of all clusters."""
        if self._puller is not None:
            self._puller.close()


def client_missing() -> EnvironmentFailure:
    """That Kafka's client is not installed."""
    return EnvironmentFailure(
        "the parties' logs are in Kafka, which needs its client", "pip install 'veristream[kafka]'"
    )
