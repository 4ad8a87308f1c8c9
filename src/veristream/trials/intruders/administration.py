"""What the administrator of the attacked Kafka does: topics, rights, and a look at what is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewTopic

from veristream.errors import EnvironmentFailure

PATIENCE_S: Final = 30.0


class Administrator:
    """An administrator with the settings of its client."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings: dict[str, str | int | float | bool] = {**settings, "log_level": 0}
        self._client = AdminClient(self._settings)

    def create_topic(self, name: str) -> None:
        """Creates a topic of one partition."""
        (created,) = self._client.create_topics([NewTopic(name, 1, 1)]).values()
        try:
            created.result(PATIENCE_S)
        except KafkaException as error:
            raise EnvironmentFailure(f"Kafka does not create the topic {name}: {error}") from error

    def allow(self, rights: Mapping[str, AclOperation], topic: str) -> None:
        """Allows each user an operation on a topic, and nothing else."""
        rules = [
            AclBinding(
                ResourceType.TOPIC,
                topic,
                ResourcePatternType.LITERAL,
                f"User:{user}",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            for user, operation in rights.items()
        ]
        try:
            for done in self._client.create_acls(rules).values():
                done.result(PATIENCE_S)
        except KafkaException as error:
            raise EnvironmentFailure(f"Kafka does not store the rules of {topic}: {error}") from error

    def read(self, topic: str) -> list[str]:
        """Returns all messages that the topic's partition has."""
        consumer = Consumer(
            {
                **self._settings,
                "group.id": "administrator",
                "enable.auto.commit": "false",
                "enable.partition.eof": "true",
            }
        )
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            return _read_to_end(consumer, topic)
        finally:
            consumer.close()


def _read_to_end(consumer: Consumer, topic: str) -> list[str]:
    found: list[str] = []
    while (message := consumer.poll(PATIENCE_S)) is not None:
        error = message.error()
        if error is None:
            found.append((message.value() or b"").decode(errors="replace"))
        elif error.code() == KafkaError._PARTITION_EOF:
            return found
        else:
            raise EnvironmentFailure(f"the administrator cannot read {topic}: {error.str()}")
    raise EnvironmentFailure(f"the administrator did not read {topic} within {PATIENCE_S:.0f} s")
