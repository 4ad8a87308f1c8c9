"""The stacks of `bench/kabis.py`: Kabis alone, on Kafka, or on Kafka with CometBFT; and plain Kafka.

A stack creates the topics of a setting, and says how to start clients and which processes belong to it.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from _kabis import PRODUCERS, Setting, encode
from _measure import ROOT

from veristream.brokers.cometbft import CometNetwork
from veristream.brokers.group import BrokerGroup
from veristream.brokers.kafka import KafkaClusters
from veristream.kabis.client.administration import act_all
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.cluster.folder import ADMIN, ClusterFolder
from veristream.kabis.kafka.settings import KafkaSettings
from veristream.kabis.kafka.topics import Topics
from veristream.kabis.protocol.actions import RegisterKey, SetTopic
from veristream.kabis.protocol.partitions import party_of
from veristream.kabis.protocol.transactions import prove_possession

CONSUMER = "consumer"


class Stack(ABC):
    """A system that events pass through."""

    @abstractmethod
    def prepare(self, setting: Setting) -> None:
        """Creates the topics."""

    @abstractmethod
    def clean(self, setting: Setting) -> None:
        """Deletes the topics' data where possible."""

    @abstractmethod
    def client(self, role: str, setting: Setting) -> list[str]:
        """Returns the command line of a client: the consumer, or the producer of that name."""

    @abstractmethod
    def pids(self) -> list[int]:
        """Returns the processes of the stack, without clients."""


@dataclass(frozen=True)
class KabisStack(Stack):
    """A Kabis cluster, and the brokers that it uses, if any."""

    cluster: Cluster
    brokers: tuple[BrokerGroup, ...] = ()

    def prepare(self, setting: Setting) -> None:
        access = Access(self.cluster.folder)
        topics = [SetTopic(topic, 1, topic in setting.validated) for topic in setting.topics]
        act_all(access.genesis, access.admin(), access.author(ADMIN), topics)

    def clean(self, setting: Setting) -> None:
        """Deletes unvalidated topics from Kafka; validated ones stay."""
        for name, settings in Access(self.cluster.folder).kafka().items():
            gone = [each for each in setting.unvalidated if party_of(self.cluster.genesis, each) == name]
            _delete(settings, gone)

    def client(self, role: str, setting: Setting) -> list[str]:
        program = str(ROOT / "bench" / "_kabis.py")
        return [sys.executable, program, role, str(self.cluster.folder.path), encode(setting)]

    def pids(self) -> list[int]:
        groups = [self.cluster.running, *(group.running for group in self.brokers)]
        return [each.pid for group in groups for each in group.values()]


@dataclass(frozen=True)
class KafkaStack(Stack):
    """One Kafka cluster without Kabis."""

    kafkas: KafkaClusters
    name: str

    @property
    def _settings(self) -> KafkaSettings:
        return KafkaSettings(self.kafkas.address(self.name))

    def prepare(self, setting: Setting) -> None:
        for topic in setting.topics:
            Topics(self._settings).require(topic, 1, {})

    def clean(self, setting: Setting) -> None:
        _delete(self._settings, list(setting.topics))

    def client(self, role: str, setting: Setting) -> list[str]:
        program = str(ROOT / "bench" / "_kafka.py")
        return [sys.executable, program, role, self._settings.bootstrap, encode(setting)]

    def pids(self) -> list[int]:
        """Returns all running brokers: idle ones cost a little too, and count for Kabis as well."""
        return [each.pid for each in self.kafkas.running.values()]


def _delete(settings: KafkaSettings, topics: list[str]) -> None:
    from confluent_kafka.admin import AdminClient

    if topics:
        admin = AdminClient({"bootstrap.servers": settings.bootstrap})
        for future in admin.delete_topics(topics).values():
            future.result()


@contextmanager
def running_kafkas(folder: Path) -> Iterator[KafkaClusters]:
    """Runs three single-node Kafka clusters."""
    with KafkaClusters(folder) as kafkas:
        kafkas.create(3)
        kafkas.start()
        yield kafkas


@contextmanager
def running_kabis(
    folder: Path, kafkas: KafkaClusters | None = None, *, cometbft: bool = False
) -> Iterator[KabisStack]:
    """Runs three storage parties, on Kafka if given, with four validators, ours or CometBFT's."""
    with ExitStack() as stack:
        brokers: list[BrokerGroup] = [] if kafkas is None else [kafkas]
        cluster = stack.enter_context(Cluster(ClusterFolder(folder / "kabis")))
        if cometbft:
            network = stack.enter_context(CometNetwork(folder / "cometbft"))
            network.create(4)
            network.start()
            brokers.append(network)
            cluster.create_over([network.address(name) for name in network.names()])
        else:
            cluster.create()
        if kafkas is not None:
            cluster.use_kafka([KafkaSettings(kafkas.address(name)) for name in kafkas.names()])
        cluster.start()
        _register(cluster.folder)
        yield KabisStack(cluster, tuple(brokers))


def _register(folder: ClusterFolder) -> None:
    """Creates a key for each producer and registers it."""
    access = Access(folder)
    chain_id = access.genesis.chain_id
    actions = []
    for name in PRODUCERS:
        key = folder.add_client(name)
        actions.append(RegisterKey(name, 0, key.public, prove_possession(chain_id, name, 0, key)))
    act_all(access.genesis, access.admin(), access.author(ADMIN), actions)
