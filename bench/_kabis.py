"""The clients of `bench/kabis.py`, each a process: `python bench/_kabis.py producer|consumer DIR SETTING`.

A client says `ready` when it is open, waits for a line with the time to begin, and prints a line of JSON
when it is done. Events begin with the time of their push, on the clock that all processes of a machine
share, so that whoever pulls one knows how old it is.
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

from veristream.kabis.access import Access
from veristream.kabis.consumed import Consumed
from veristream.kabis.consumer import KabisConsumer
from veristream.kabis.consumer_options import ConsumerOptions
from veristream.kabis.folder import ClusterFolder
from veristream.kabis.pushes import Pushed
from veristream.kabis.records import Record
from veristream.kabis.routes import ProducerOptions

TIME = struct.Struct(">q")
PENDING_MAX = 50_000
PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Setting:
    """What is run: `pace_s` is the time between two pushes of one producer, 0 for as fast as it goes.

    In the paper's pattern a batch has one event, and a producer waits for each before it pushes the next.
    """

    name: str
    validated: tuple[str, ...]
    unvalidated: tuple[str, ...]
    size_bytes: int
    events: int
    paper: bool = False
    pace_s: float = 0.0

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics, in turn."""
        return self.validated + self.unvalidated


def encode(setting: Setting) -> str:
    """The setting as a word of a command line."""
    return json.dumps(asdict(setting))


def decode(text: str) -> Setting:
    """What `encode` wrote."""
    fields: dict[str, Any] = json.loads(text)
    fields["validated"], fields["unvalidated"] = tuple(fields["validated"]), tuple(fields["unvalidated"])
    return Setting(**fields)


def produce(access: Access, name: str, setting: Setting) -> None:
    """Pushes the events and waits until all are acknowledged."""
    options = (
        ProducerOptions(linger_ms=0, batch_events=1, in_flight=1) if setting.paper else ProducerOptions()
    )
    filler = b"x" * (setting.size_bytes - TIME.size)
    topics = setting.topics
    waiting: deque[Pushed] = deque()
    with access.producer(name, options, journal=False) as producer:
        cpu_s = _wait_for_start()
        began = time.monotonic()
        for number in range(setting.events):
            if setting.pace_s:
                time.sleep(max(0.0, began + number * setting.pace_s - time.monotonic()))
            value = TIME.pack(time.monotonic_ns()) + filler
            pushed = producer.push(Record(topics[number % len(topics)], value))
            if setting.paper:
                pushed.result(PATIENCE_S)
            else:
                waiting.append(pushed)
                if len(waiting) > PENDING_MAX:
                    waiting.popleft().result(PATIENCE_S)
        producer.flush(PATIENCE_S)
        for each in waiting:
            each.result(PATIENCE_S)
        seconds = time.monotonic() - began
        _tell({"acknowledged": setting.events, "seconds": seconds, "cpu_s": time.process_time() - cpu_s})


def consume(access: Access, setting: Setting, count: int) -> None:
    """Pulls the events of all producers: validated topics validating, others not."""
    consumers = list(_subscribe(access, setting))
    try:
        cpu_s = _wait_for_start()
        ages: list[int] = []
        pulled = 0
        while pulled < count:
            for consumer in consumers:
                events = consumer.pull(PATIENCE_S if len(consumers) == 1 else 0.002)
                pulled += len(events)
                ages += _ages(events)
        ended, cpu_s = time.monotonic(), time.process_time() - cpu_s
    finally:
        for consumer in consumers:
            consumer.close()
    ages.sort()
    ranks = {f"p{rank}_ms": ages[min(len(ages) - 1, len(ages) * rank // 100)] / 1e6 for rank in (50, 99)}
    _tell({"pulled": pulled, "ended": ended, "cpu_s": cpu_s, **ranks})


def _subscribe(access: Access, setting: Setting) -> Iterator[KabisConsumer]:
    for topics, validate in ((setting.validated, True), (setting.unvalidated, False)):
        if topics:
            consumer = access.consumer(options=ConsumerOptions(validate=validate))
            consumer.open()
            consumer.subscribe(topics)
            yield consumer


def _ages(events: list[Consumed]) -> list[int]:
    """The ages of some of the events: looking at each would slow the consumer down."""
    now = time.monotonic_ns()
    step = max(1, len(events) // 10)
    return [now - TIME.unpack_from(event.value or b"")[0] for event in events[::step]]


def _wait_for_start() -> float:
    """Waits, and gives the processor time that was used until then."""
    print("ready", flush=True)
    begin = float(sys.stdin.readline())
    time.sleep(max(0.0, begin - time.monotonic()))
    return time.process_time()


def _tell(result: dict[str, Any]) -> None:
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    role, folder, given, *rest = sys.argv[1:]
    opened = Access(ClusterFolder(Path(folder)))
    if role == "consumer":
        consume(opened, decode(given), int(rest[0]))
    else:
        produce(opened, role, decode(given))
