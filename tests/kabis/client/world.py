"""A cluster in memory with its clients, for tests of producers and consumers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kabis.chain import CHAIN, STORAGE, VALIDATORS, key_of, make_genesis
from veristream.kabis.channels.interfaces import Channels, Connect
from veristream.kabis.client import driver
from veristream.kabis.client.consumed import Consumed
from veristream.kabis.client.consumer.consumer import KabisConsumer
from veristream.kabis.client.options import ConsumerOptions, ProducerOptions
from veristream.kabis.client.producer import producer
from veristream.kabis.client.producer.producer import KabisProducer
from veristream.kabis.protocol.actions import SetTopic
from veristream.kabis.protocol.genesis import StorageMode
from veristream.kabis.protocol.outcomes import Done
from veristream.kabis.protocol.transactions import Author
from veristream_testing.simulation.memory import MemoryCluster

NAMES = (*VALIDATORS, *STORAGE, "admin", "alice", "bob")
PATIENCE_S = 30.0
FOR_EVER_MS = 3_600_000
"""Longer than any test runs: what waits so long waits for what the test does, on a busy machine too."""


def author_of(name: str, key_epoch: int = 0) -> Author:
    return Author(CHAIN, name, key_epoch, key_of(name, key_epoch))


def make_cluster(mode: StorageMode = StorageMode.TOLERANT, **options: Any) -> MemoryCluster:
    """A chain with the validated topic `orders` of two partitions, and `logs`, which is not validated."""
    cluster = MemoryCluster(make_genesis(mode=mode), {name: key_of(name) for name in NAMES}, **options)
    assert cluster.act("admin", SetTopic("orders", 2, validated=True)) == Done()
    assert cluster.act("admin", SetTopic("logs", 1, validated=False)) == Done()
    return cluster


def connect_to(cluster: MemoryCluster, author: Author) -> Connect:
    async def connect() -> Channels:
        return cluster.channels(author)

    return connect


@contextmanager
def producing(
    cluster: MemoryCluster, name: str = "alice", journal: Path | None = None, **options: Any
) -> Iterator[KabisProducer]:
    author = author_of(name)
    settings = ProducerOptions(**{"retry_ms": 5, "submit_timeout_ms": 50, **options})
    producer = KabisProducer(cluster.genesis, author, connect_to(cluster, author), settings, journal)
    producer.open()
    try:
        yield producer
    except BaseException:
        producer.close(timeout=0.0)
        raise
    producer.close()


@contextmanager
def consuming(
    cluster: MemoryCluster, topics: Iterable[str] = ("orders",), name: str = "bob", **options: Any
) -> Iterator[KabisConsumer]:
    author = author_of(name)
    settings = ConsumerOptions(**{"fetch_timeout_ms": 50, "retry_ms": 5, "wait_ms": 20, **options})
    with KabisConsumer(cluster.genesis, author, connect_to(cluster, author), settings) as consumer:
        if topics:
            consumer.subscribe(topics)
        yield consumer


class Clock:
    """The clock of the clients: it runs as the machine's does, and ahead of it where a test says so."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._ahead_ms = 0
        self._monotonic_ms = driver.monotonic_ms
        for module in (driver, producer):
            patch.setattr(module, "monotonic_ms", self._now_ms)

    def _now_ms(self) -> int:
        return self._monotonic_ms() + self._ahead_ms

    def jump(self, client: KabisProducer, passed_ms: int) -> None:
        """So much time has passed, and the client's alarm, which was set by the machine's clock, rings."""
        self._ahead_ms += passed_ms
        client._inner._driver.call_soon(client._inner._driver._ring)


def pull(consumer: KabisConsumer, count: int) -> list[Consumed]:
    """Exactly so many events; fails if they do not come."""
    events: list[Consumed] = []
    while len(events) < count:
        more = consumer.pull(PATIENCE_S, count - len(events))
        assert more, f"only {len(events)} events of {count}"
        events += more
    return events


def wait_until(condition: Callable[[], bool]) -> None:
    """Waits for what other threads bring about; fails if it never comes."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, "it does not come"
        time.sleep(0.001)


def values(events: Iterable[Consumed]) -> list[bytes | None]:
    return [event.value for event in events]
