"""The settings of what is recorded: those of the brokers, of the topic, and of the clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from veristream.recording.settings import split_settings

PARTS: Final = ("broker", "topic", "producer", "consumer", "feature")
"""What a setting may belong to; a feature is one of the cluster, such as transaction.version."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings by what they belong to: Kafka's names for brokers and topics, librdkafka's for clients."""

    broker: Mapping[str, str] = field(default_factory=dict)
    topic: Mapping[str, str] = field(default_factory=dict)
    producer: Mapping[str, str] = field(default_factory=dict)
    consumer: Mapping[str, str] = field(default_factory=dict)
    feature: Mapping[str, str] = field(default_factory=dict)

    def flat(self) -> dict[str, str]:
        """Returns all of them with names such as `producer.acks`, as the manifest has them."""
        return {f"{part}.{key}": value for part in PARTS for key, value in getattr(self, part).items()}


def read_settings(flat: Mapping[str, str]) -> Settings:
    """Reads settings with names such as `producer.acks`; raises ModelError for other names."""
    return Settings(**split_settings(flat, PARTS, "nothing that is recorded", "producer.acks=1"))
