"""Pushes events while brokers stop and start, and checks what a consumer receives afterwards."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from types import TracebackType
from typing import Self

from tests.brokers.patience import PATIENCE_S
from tests.kabis.session.console import Console
from veristream.kabis.client.consumed import Consumed
from veristream.kabis.client.options import ConsumerOptions
from veristream.kabis.client.pushes import Pushed
from veristream.kabis.cluster.access import Access
from veristream.kabis.protocol.records import Record

PACE_S = 0.01
VALIDATED = ConsumerOptions()
UNVALIDATED = ConsumerOptions(validate=False)

_numbers = count()


def create(console: Console, *options: object) -> str:
    """Creates a topic that no other test uses."""
    name = f"topic-{os.getpid()}-{next(_numbers)}"
    console.do("topic", "create", name, *options)
    return name


def pull(access: Access, topic: str, wanted: int, options: ConsumerOptions = VALIDATED) -> list[Consumed]:
    """Reads a topic from its beginning: `wanted` events or as many as come in time, and no more."""
    events: list[Consumed] = []
    with access.consumer(options=options) as consumer:
        consumer.subscribe([topic])
        deadline_s = time.monotonic() + PATIENCE_S
        while len(events) < wanted and time.monotonic() < deadline_s:
            events += consumer.pull(timeout=1.0)
        assert consumer.pull(timeout=0.2) == []
    return events


def values(events: list[Consumed], partition: int = 0) -> list[bytes | None]:
    """Returns the values of a partition's events."""
    return [event.value for event in events if event.partition == partition]


def value_of(topic: str, number: int) -> bytes:
    """Returns the value of a stream's event; no event's value is a part of another's."""
    return b"<%s %d>" % (topic.encode(), number)


class Stream:
    """A producer that pushes to topics until the context ends, and then waits for all results.

    The events of a topic go to its partitions in turn.
    """

    def __init__(self, access: Access, partitions: Mapping[str, int]) -> None:
        self.pushed: dict[str, list[Pushed]] = {topic: [] for topic in partitions}
        self._partitions = partitions
        self._producer = access.producer(journal=False)
        self._left = threading.Event()
        self._thread = ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        self._producer.__enter__()
        self._pushing = self._thread.submit(self._push)
        return self

    def _push(self) -> None:
        for number in count():
            for topic, partitions in self._partitions.items():
                record = Record(topic, value_of(topic, number), partition=number % partitions)
                self.pushed[topic].append(self._producer.push(record, timeout=PATIENCE_S))
            if self._left.wait(PACE_S):
                return

    def settle(self, *topics: str) -> None:
        """Waits until Kafka or the ledger has an event of each topic that was pushed after this call."""
        seen = {topic: len(self.pushed[topic]) for topic in topics or self.pushed}
        deadline_s = time.monotonic() + PATIENCE_S
        for topic, before in seen.items():
            while len(self.pushed[topic]) == before:
                assert not self._pushing.done() and time.monotonic() < deadline_s
                time.sleep(PACE_S)
            self.pushed[topic][before].result(PATIENCE_S)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()
        self._thread.shutdown(wait=True)
        try:
            self._pushing.result()
            if error is None:
                self._producer.flush(PATIENCE_S)
        finally:
            self._producer.__exit__(kind, error, trace)

    def require_all(self, access: Access, topic: str, options: ConsumerOptions = VALIDATED) -> None:
        """Asserts that every event was acknowledged and is delivered once, in order, at its offset."""
        told = [pushed.result(0).index for pushed in self.pushed[topic]]
        partitions = self._partitions[topic]
        events = pull(access, topic, len(told), options)
        for partition in range(partitions):
            numbers = range(partition, len(told), partitions)
            assert values(events, partition) == [value_of(topic, number) for number in numbers]
            found = [event.index for event in events if event.partition == partition]
            assert found == [told[number] for number in numbers] == list(range(len(numbers)))
        assert len(events) == len(told) > 0
