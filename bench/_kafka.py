"""Plain confluent-kafka in the settings of `bench/kabis.py`, one process per client:
`python bench/_kafka.py producer|consumer ADDRESS SETTING`.

The peer does what its users do: producers are idempotent with `acks=all`, like those of Kabis, and the
consumer is assigned all partitions and reads the value of every message. With `reports`, a producer gets
Kafka's result for every event in a callback, which corresponds to the future of a Kabis push; without, it
only checks at the end that all were delivered.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from _kabis import PATIENCE_S, PRODUCERS, TIME, Ages, Setting, decode, tell, wait_for_start
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from veristream.kabis.client.options import ProducerOptions

MESSAGES_MAX = 2_000_000
CONSUMED_MAX = 2_000
POLL_S = 0.1


class Count:
    """Counts the events that Kafka has acknowledged; any failure ends the run."""

    def __init__(self) -> None:
        self.delivered = 0

    def report(self, error: KafkaError | None, message: Message) -> None:
        """The delivery callback."""
        if error is not None:
            raise RuntimeError(str(error))
        self.delivered += 1


def produce(address: str, setting: Setting) -> None:
    """Produces the events and waits until all are acknowledged."""
    producer = Producer(settings(address))
    filler = b"x" * (setting.size_bytes - TIME.size)
    topics, count = setting.topics, Count()
    more: dict[str, Any] = {"on_delivery": count.report} if setting.reports else {}
    for topic in topics:
        producer.produce(topic, TIME.pack(0) + filler)
    producer.flush(PATIENCE_S)
    with polled(producer):
        cpu_s = wait_for_start()
        for number in range(setting.events):
            value = TIME.pack(time.monotonic_ns()) + filler
            topic = topics[number % len(topics)]
            while True:
                try:
                    producer.produce(topic, value, **more)
                    break
                except BufferError:
                    producer.poll(0.001)
        left = producer.flush(PATIENCE_S)
        ended, cpu_s = time.monotonic(), time.process_time() - cpu_s
    if left or (setting.reports and count.delivered != setting.events):
        raise RuntimeError(f"{left} events were not delivered")
    tell({"ended": ended, "cpu_s": cpu_s})


@contextmanager
def polled(producer: Producer) -> Iterator[None]:
    """Runs a thread that polls for Kafka's delivery reports, as Kabis does too."""
    done = threading.Event()

    def poll() -> None:
        while not done.is_set():
            producer.poll(POLL_S)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def settings(address: str) -> dict[str, Any]:
    """Returns settings with the acknowledgements and buffers of a Kabis producer."""
    options = ProducerOptions()
    return {
        "bootstrap.servers": address,
        "acks": "all",
        "enable.idempotence": True,
        "linger.ms": options.linger_ms,
        "queue.buffering.max.messages": MESSAGES_MAX,
        "queue.buffering.max.kbytes": options.buffer_bytes >> 10,
    }


def consume(address: str, setting: Setting, count: int) -> None:
    """Consumes the events of all producers."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0) for topic in setting.topics])
    take(consumer, len(PRODUCERS) * len(setting.topics), Ages())
    cpu_s, ages = wait_for_start(), Ages()
    size_bytes = take(consumer, count, ages)
    ended, cpu_s = time.monotonic(), time.process_time() - cpu_s
    consumer.close()
    if size_bytes != count * setting.size_bytes:
        raise RuntimeError(f"{size_bytes} bytes were consumed")
    tell({"ended": ended, "cpu_s": cpu_s, **ages.ranks()})


def take(consumer: Consumer, count: int, ages: Ages) -> int:
    """Consumes `count` events; returns their total size in bytes."""
    consumed = size_bytes = 0
    while consumed < count:
        values: list[bytes] = []
        for message in consumer.consume(CONSUMED_MAX, POLL_S):
            if message.error() is not None:
                raise RuntimeError(str(message.error()))
            values.append(message.value() or b"")
        consumed += len(values)
        size_bytes += sum(map(len, values))
        ages.note(values)
    return size_bytes


if __name__ == "__main__":
    role, broker, given, *rest = sys.argv[1:]
    if role == "consumer":
        consume(broker, decode(given), int(rest[0]))
    else:
        produce(broker, decode(given))
