"""Topics of a Kafka cluster: creates them, or checks that they are as Kabis needs them."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from veristream.errors import ModelError
from veristream.kabis.kafka.failures import RETRY_S, Troubles, error_of, patiently
from veristream.kabis.kafka.settings import BOOTSTRAP, KafkaSettings

ANSWER_S = 10.0
REPLICAS = 3

logger = logging.getLogger("veristream.kabis.kafka.client")
"""Takes librdkafka's log lines, one for each attempt. `Troubles` reports their outcome once."""
logger.addHandler(logging.NullHandler())
logger.propagate = False


DEFAULTS = {"reconnect.backoff.max.ms": "1000"}
"""So that a broker is found soon after it returns: by default librdkafka waits up to ten seconds."""


def configure(settings: KafkaSettings, troubles: Troubles, **own: Any) -> dict[str, Any]:
    """Returns a client's configuration: defaults, the user's properties, then what Kabis requires."""
    named = {key.replace("_", "."): value for key, value in own.items()}
    base = {BOOTSTRAP: settings.bootstrap, "error_cb": troubles.note, "logger": logger}
    return {**DEFAULTS, **settings.properties, **base, **named}


class Topics:
    """The topics of one cluster."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._troubles = Troubles(settings)
        try:
            self.admin = AdminClient(configure(settings, self._troubles))
        except (KafkaException, ValueError) as error:
            raise ModelError(
                f"Kafka's client rejects the properties for {settings.bootstrap}: {error}",
                hint="they are librdkafka's; see its list of properties",
            ) from error

    def brokers(self) -> int:
        """Returns the number of brokers. Raises KafkaFailure if none answers."""
        return len(self._describe().brokers)

    def partitions(self, topic: str) -> int | None:
        """Returns the number of a topic's partitions, or None if there is no such topic."""
        found = self._describe().topics.get(topic)
        if found is None or found.error is not None:
            return None
        return len(found.partitions)

    def _describe(self) -> Any:
        """Lists all topics, because asking for one by name may create it."""
        try:
            return self.admin.list_topics(timeout=ANSWER_S)
        except KafkaException as error:
            self.admin.poll(0)
            raise self._troubles.explain("list topics", error_of(error)) from error

    def ends(self, topic: str, partitions: int) -> list[int]:
        """Returns the offset of the next message of each partition."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return self._find([(topic, number, latest) for number in range(partitions)])

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Returns the first offset of a partition, and the offset of the next message."""
        earliest, latest = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]
        (low,) = self._find([(topic, partition, earliest)])
        (high,) = self._find([(topic, partition, latest)])
        return low, high

    def _find(self, wanted: Sequence[tuple[str, int, Any]]) -> list[int]:
        """Returns the offsets at the ends of partitions that another client may have just created."""

        def ask() -> list[int]:
            asked = {TopicPartition(topic, number): end for topic, number, end in wanted}
            answers = self.admin.list_offsets(asked, request_timeout=ANSWER_S)
            return [answers[place].result().offset for place in asked]

        try:
            return patiently(ask, ANSWER_S)
        except KafkaException as error:
            raise self._troubles.explain(f"find the ends of {wanted[0][0]}", error_of(error)) from error

    def require(self, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Creates the topic if necessary. Raises ModelError if the number of partitions differs."""
        found = self.partitions(topic)
        if found is None:
            self._create(topic, partitions, settings)
            found = self._wait_for(topic)
        if found != partitions:
            raise ModelError(
                f"the topic {topic} of Kafka at {self._settings.bootstrap} has {found} partitions,"
                f" and Kabis expects {partitions}",
                hint=f"give it {partitions} partitions, or use another name for the topic of Kabis",
            )

    def _wait_for(self, topic: str) -> int:
        """Waits until a new topic is known, because brokers learn of it one after the other."""
        deadline_s = time.monotonic() + ANSWER_S
        while (found := self.partitions(topic)) is None:
            if time.monotonic() > deadline_s:
                raise self._troubles.explain(f"find the topic {topic}, which was created")
            time.sleep(RETRY_S)
        return found

    def _create(self, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
        replicas = min(REPLICAS, self.brokers())
        wanted = NewTopic(topic, partitions, replicas, config=dict(settings))
        try:
            self.admin.create_topics([wanted], operation_timeout=ANSWER_S)[topic].result()
        except KafkaException as exception:
            error = error_of(exception)
            if error is None or error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self._troubles.explain(f"create the topic {topic}", error) from exception
