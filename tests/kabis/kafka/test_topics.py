"""Topics that another client has just made: the broker that is asked may not know of them yet."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from veristream.errors import ModelError
from veristream.kabis.kafka import topics
from veristream.kabis.kafka.failures import KafkaFailure
from veristream.kabis.kafka.settings import KafkaSettings
from veristream.kabis.kafka.topics import Topics


class Lagging:
    """A cluster that has a topic of five partitions, and shows it only when it is asked so often."""

    def __init__(self, shown_at: int) -> None:
        self.shown_at = shown_at
        self.asked = 0

    def list_topics(self, timeout: float) -> Any:
        self.asked += 1
        orders = SimpleNamespace(error=None, partitions=dict.fromkeys(range(5)))
        shown = {"orders": orders} if self.asked >= self.shown_at else {}
        return SimpleNamespace(topics=shown, brokers={1: None})

    def create_topics(self, wanted: list[Any], operation_timeout: float) -> dict[str, Future[None]]:
        made: Future[None] = Future()
        made.set_exception(KafkaException(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS)))
        return {"orders": made}


def made(shown_at: int) -> tuple[Topics, Lagging]:
    found, cluster = Topics(KafkaSettings("127.0.0.1:1")), Lagging(shown_at)
    found.admin = cluster  # type: ignore[assignment]
    return found, cluster


def test_another_number_of_partitions_is_noticed_once_the_broker_knows_it() -> None:
    found, cluster = made(shown_at=6)
    with pytest.raises(ModelError, match="has 5 partitions, and Kabis expects 2"):
        found.require("orders", 2, {})
    assert cluster.asked == 6


def test_the_topic_that_is_wanted_is_waited_for() -> None:
    found, cluster = made(shown_at=6)
    found.require("orders", 5, {})
    assert cluster.asked == 6


def test_a_topic_that_never_shows_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "ANSWER_S", 0.2)
    found, _ = made(shown_at=1_000_000)
    with pytest.raises(KafkaFailure, match="cannot find the topic orders, which was created"):
        found.require("orders", 5, {})
