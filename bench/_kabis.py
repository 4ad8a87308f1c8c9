"""A client of `bench/kabis.py`, one process each: `python bench/_kabis.py producer|consumer DIR SETTING`.

Each producer first sends one event through every topic, so that all connections are open before the clock
starts. A client then prints `ready`, reads a line with the start time, and finally prints a line of JSON.
Events start with the time of their push, on the monotonic clock that all processes of a machine share, so
that the consumer can compute their latency.
"""

from __future__ import annotations

import json
import struct
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from veristream.kabis.client.consumer.consumer import KabisConsumer
from veristream.kabis.client.options import ConsumerOptions, ProducerOptions
from veristream.kabis.client.producer.producer import KabisProducer
from veristream.kabis.client.pushes import Pushed, PushedMany
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.protocol.records import Record

TIME = struct.Struct(">q")
PENDING_MAX = 50_000
PATIENCE_S = 120.0
PRODUCERS = ("producer-1", "producer-2", "producer-3")


@dataclass(frozen=True, slots=True)
class Setting:
    """What to run; `pace_s` is the time between two pushes of a producer, or 0 for full speed.

    In the paper's pattern, a batch has one event, and a producer waits for each before it pushes the next.
    With `reports`, the producer checks the result of every event, otherwise only that none failed at the
    end. `together` is the number of events per call.
    """

    name: str
    validated: tuple[str, ...]
    unvalidated: tuple[str, ...]
    size_bytes: int
    events: int
    paper: bool = False
    pace_s: float = 0.0
    reports: bool = True
    together: int = 1

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics, validated ones first."""
        return self.validated + self.unvalidated


def encode(setting: Setting) -> str:
    """Encodes a setting as a command-line argument."""
    return json.dumps(asdict(setting))


def decode(text: str) -> Setting:
    """Decodes the result of `encode`."""
    fields: dict[str, Any] = json.loads(text)
    fields["validated"], fields["unvalidated"] = tuple(fields["validated"]), tuple(fields["unvalidated"])
    return Setting(**fields)


class Ages:
    """The ages of events when they are pulled; a sample, since measuring each would slow the consumer."""

    def __init__(self) -> None:
        self._found: list[int] = []

    def note(self, values: list[bytes]) -> None:
        """Records the ages of a sample of the events just pulled."""
        now, step = time.monotonic_ns(), max(1, len(values) // 10)
        self._found += [now - TIME.unpack_from(value)[0] for value in values[::step]]

    def ranks(self) -> dict[str, float]:
        """Returns the median and the 99th percentile."""
        found = sorted(self._found)
        return {
            f"p{rank}_ms": found[min(len(found) - 1, len(found) * rank // 100)] / 1e6 for rank in (50, 99)
        }


def produce(access: Access, name: str, setting: Setting) -> None:
    """Pushes the events and waits until all are acknowledged."""
    options = (
        ProducerOptions(linger_ms=0, batch_events=1, in_flight=1) if setting.paper else ProducerOptions()
    )
    filler = b"x" * (setting.size_bytes - TIME.size)
    waiting: deque[Pushed | PushedMany] = deque()
    with access.producer(name, options, journal=False) as producer:
        for pushed in [producer.push(Record(topic, TIME.pack(0) + filler)) for topic in setting.topics]:
            pushed.result(PATIENCE_S)
        cpu_s = wait_for_start()
        push = _push_one_by_one if setting.together == 1 else _push_together
        for found in push(producer, setting, filler):
            waiting.append(found)
            if len(waiting) > PENDING_MAX // setting.together:
                _look_at(waiting.popleft())
        producer.flush(PATIENCE_S)
        for each in waiting:
            _look_at(each)
        ended, cpu_s = time.monotonic(), time.process_time() - cpu_s
        acknowledged = producer.metrics()["acknowledged"]
    if acknowledged != setting.events + len(setting.topics):
        raise RuntimeError(f"{acknowledged} of {setting.events} events were acknowledged")
    tell({"ended": ended, "cpu_s": cpu_s})


def _push_one_by_one(producer: KabisProducer, setting: Setting, filler: bytes) -> Iterator[Pushed]:
    """Pushes event by event; yields the futures to check later."""
    began, topics = time.monotonic(), setting.topics
    for number in range(setting.events):
        if setting.pace_s:
            time.sleep(max(0.0, began + number * setting.pace_s - time.monotonic()))
        value = TIME.pack(time.monotonic_ns()) + filler
        pushed = producer.push(Record(topics[number % len(topics)], value))
        if setting.paper:
            pushed.result(PATIENCE_S)
        elif setting.reports:
            yield pushed


def _push_together(producer: KabisProducer, setting: Setting, filler: bytes) -> Iterator[PushedMany]:
    """Pushes many events of a topic with each call; yields the futures to check later."""
    topics = setting.topics
    for number in range(setting.events // setting.together):
        values = [TIME.pack(time.monotonic_ns()) + filler for _ in range(setting.together)]
        yield producer.push_all(topics[number % len(topics)], values)


def _look_at(pushed: Pushed | PushedMany) -> None:
    """Waits until the events are acknowledged; raises if they failed."""
    if isinstance(pushed, PushedMany):
        pushed.wait(PATIENCE_S)
    else:
        pushed.result(PATIENCE_S)


def consume(access: Access, setting: Setting, count: int) -> None:
    """Pulls the events of all producers, with validation for validated topics only."""
    consumers = list(_subscribe(access, setting))
    try:
        _pull(consumers, len(PRODUCERS) * len(setting.topics), Ages())
        cpu_s, ages = wait_for_start(), Ages()
        size_bytes = _pull(consumers, count, ages)
        ended, cpu_s = time.monotonic(), time.process_time() - cpu_s
    finally:
        for consumer in consumers:
            consumer.close()
    if size_bytes != count * setting.size_bytes:
        raise RuntimeError(f"{size_bytes} bytes were pulled")
    tell({"ended": ended, "cpu_s": cpu_s, **ages.ranks()})


def _pull(consumers: list[KabisConsumer], count: int, ages: Ages) -> int:
    """Pulls `count` events; returns their total size in bytes."""
    pulled = size_bytes = 0
    while pulled < count:
        for consumer in consumers:
            events = consumer.pull(PATIENCE_S if len(consumers) == 1 else 0.002)
            values = [event.value or b"" for event in events]
            pulled += len(values)
            size_bytes += sum(map(len, values))
            ages.note(values)
    return size_bytes


def _subscribe(access: Access, setting: Setting) -> Iterator[KabisConsumer]:
    for topics, validate in ((setting.validated, True), (setting.unvalidated, False)):
        if topics:
            consumer = access.consumer(options=ConsumerOptions(validate=validate))
            consumer.open()
            consumer.subscribe(topics)
            yield consumer


def wait_for_start() -> float:
    """Waits for the start time; returns the CPU time used until then."""
    print("ready", flush=True)
    begin = float(sys.stdin.readline())
    time.sleep(max(0.0, begin - time.monotonic()))
    return time.process_time()


def tell(result: dict[str, Any]) -> None:
    """Prints the client's result."""
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    role, folder, given, *rest = sys.argv[1:]
    opened = Access(ClusterFolder(Path(folder)))
    if role == "consumer":
        consume(opened, decode(given), int(rest[0]))
    else:
        produce(opened, role, decode(given))
