"""The Kafka that is recorded: brokers on this machine, with proxies in front of them, or somebody else's.

with local_kafka(folder, settings) as kafka:
    kafka.create_topic("orders", 3)
    producer = kafka.producer(recording, "producer-0")
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from veristream.brokers.java.process import JavaError
from veristream.brokers.kafka import KAFKA_VERSION, find_program
from veristream.brokers.proxy.network import ProxyNetwork
from veristream.brokers.proxy.pieces import KafkaFrames
from veristream.brokers.replicated.cluster import ReplicatedKafka
from veristream.errors import EnvironmentFailure, ModelError
from veristream.history.manifest import Isolation
from veristream.recording.kafka.consumer import RecordedConsumer
from veristream.recording.kafka.java import RecordedJavaProducer
from veristream.recording.kafka.producer import RecordedProducer
from veristream.recording.kafka.settings import Settings
from veristream.recording.recording import Recording

ANSWER_S: Final = 15.0
REPLICAS: Final = 3

BROKER: Final = {"group.min.session.timeout.ms": "1000"}
"""Groups of a recording may notice soon that a member is gone."""

CLIENT: Final = {"reconnect.backoff.max.ms": "500", "topic.metadata.refresh.interval.ms": "10000"}
PRODUCER: Final = {"message.timeout.ms": "30000", "linger.ms": "0"}
"""A message that cannot be delivered is given up, since a recording must come to its end."""

JAVA: Final = {"delivery.timeout.ms": "30000", "linger.ms": "0", "reconnect.backoff.max.ms": "500"}

CONSUMER: Final = {
    "auto.offset.reset": "earliest",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "500",
}

logger = logging.getLogger("veristream.recording.kafka")
"""Takes what librdkafka says of each attempt; the recording has what came of it."""
logger.addHandler(logging.NullHandler())
logger.propagate = False


@dataclass(slots=True)
class RunningKafka:
    """A cluster, and how to connect to it; `brokers` and `network` are those of this machine, if they are.

    `settings` are those of topics and clients, and change from one recording to the next.
    """

    bootstrap: str
    settings: Settings = field(default_factory=Settings)
    brokers: ReplicatedKafka | None = None
    network: ProxyNetwork | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def local(self) -> ReplicatedKafka:
        """The brokers of this machine, for what only they permit; raises ModelError."""
        if self.brokers is None:
            raise ModelError(
                "this needs brokers that can be stopped and killed", hint="leave out --bootstrap"
            )
        return self.brokers

    @property
    def proxies(self) -> ProxyNetwork:
        """The proxies in front of the brokers; raises ModelError if there are none."""
        if self.network is None:
            raise ModelError("this needs proxies in front of the brokers", hint="leave out --bootstrap")
        return self.network

    def nodes(self) -> list[str]:
        """Returns the names of the brokers of this machine."""
        return self.brokers.brokers() if self.brokers is not None else []

    def create_topic(self, name: str, partitions: int = 1, replicas: int | None = None) -> None:
        """Creates a topic with the settings for topics, and waits until its replicas are in sync."""
        if self.brokers is not None:
            count = min(REPLICAS, len(self.nodes())) if replicas is None else replicas
            self.brokers.create_topic(name, partitions, count, self.settings.topic)
            return
        admin = AdminClient(self.client_settings("administrator"))
        new = NewTopic(name, partitions, replicas or -1, config=dict(self.settings.topic))
        try:
            admin.create_topics([new], operation_timeout=ANSWER_S, request_timeout=ANSWER_S)[name].result()
        except KafkaException as failure:
            raise EnvironmentFailure(
                f"cannot create the topic {name} of Kafka at {self.bootstrap}: {failure}",
                "check that it runs and that the address is right",
            ) from failure

    def producer(self, recording: Recording, name: str, **own: Any) -> RecordedProducer:
        """Returns a producer with the settings for producers, and `own` ones (with _ for .) above them."""
        config = {**self.client_settings(name), **PRODUCER, **self.settings.producer, **_dotted(own)}
        with _refusing("producer"):
            return RecordedProducer(config, recording, name)

    def java_producer(
        self, recording: Recording, name: str, version: str = KAFKA_VERSION, **own: Any
    ) -> RecordedJavaProducer:
        """Returns a producer of Java's client, with `own` settings (with _ for .) above few others.

        The settings for producers are librdkafka's, so they do not apply. Raises EnvironmentFailure.
        """
        common = {"bootstrap.servers": self.bootstrap, "client.id": name}
        config = {**JAVA, **common, **_dotted(own)}
        try:
            return RecordedJavaProducer(config, recording, name, find_program(version))
        except JavaError as failure:
            raise ModelError(f"Kafka's Java client rejects its settings: {failure.message}") from failure

    def member(self, recording: Recording, name: str, group: str, **own: Any) -> RecordedConsumer:
        """Returns a consumer that is a member of a group."""
        config = {**self.client_settings(name), **CONSUMER, **self.settings.consumer, **_dotted(own)}
        with _refusing("consumer"):
            return RecordedConsumer({**config, "group.id": group}, recording, name)

    def reader(self, recording: Recording, name: str, isolation: Isolation = "") -> RecordedConsumer:
        """Returns a consumer of no group that tells where partitions end; `isolation` goes first."""
        config = {**self.client_settings(name), **CONSUMER, **self.settings.consumer}
        config |= {"enable.auto.commit": "false", "enable.partition.eof": "true"}
        if isolation:
            config["isolation.level"] = isolation
        with _refusing("consumer"):
            group = {"group.id": f"reader-{uuid.uuid4().hex[:12]}"}
            return RecordedConsumer({**config, **group}, recording, name, member=False)

    def wait_healed(self, topics: Sequence[str]) -> None:
        """Waits until brokers of this machine have all replicas of these topics in sync."""
        if self.brokers is not None:
            for each in topics:
                self.brokers.wait_in_sync(each)

    def client_settings(self, name: str) -> dict[str, Any]:
        """Returns the settings of any client of the cluster."""
        quiet = {"logger": logger, "error_cb": lambda error: None}
        return {
            **CLIENT,
            **self.properties,
            "bootstrap.servers": self.bootstrap,
            "client.id": name,
            **quiet,
        }


@contextmanager
def local_kafka(
    folder: Path,
    settings: Settings,
    brokers: int = 3,
    *,
    proxied: bool = True,
    between: bool = False,
    version: str = KAFKA_VERSION,
) -> Iterator[RunningKafka]:
    """Runs brokers in a folder, new or not, until the block is left; they are then stopped.

    With `between`, brokers reach each other through proxies too, which `between_name` names.
    """
    with ExitStack() as stack:
        cluster = ReplicatedKafka(folder, {**BROKER, **settings.broker}, settings.feature, version)
        cluster.create(brokers)
        bootstrap, network = cluster.bootstrap, None
        if proxied:
            targets = {name: cluster.address(name) for name in cluster.brokers()}
            inner = {between_name(name): cluster.address_between(name) for name in targets if between}
            network = stack.enter_context(ProxyNetwork({**targets, **inner}, KafkaFrames))
            bootstrap = ",".join(network.address(name) for name in targets)
        for name in cluster.brokers():
            reached, inside = cluster.address(name), cluster.address_between(name)
            if network is not None:
                reached = network.address(name)
                inside = network.address(between_name(name)) if between else inside
            cluster.advertise(name, reached)
            cluster.advertise(name, inside, "INTER")
        stack.enter_context(cluster)
        cluster.start()
        yield RunningKafka(bootstrap, settings, cluster, network)


def between_name(broker: str) -> str:
    """Returns the name of the proxy that other brokers reach a broker through."""
    return f"{broker} between brokers"


@contextmanager
def _refusing(part: str) -> Iterator[None]:
    try:
        yield
    except (KafkaException, ValueError, TypeError) as failure:
        raise ModelError(
            f"Kafka's client rejects the settings for the {part}: {failure}",
            hint=f"--set {part}.KEY=VALUE takes librdkafka's properties",
        ) from failure


def _dotted(own: Mapping[str, Any]) -> dict[str, Any]:
    return {key.replace("_", "."): value for key, value in own.items()}
