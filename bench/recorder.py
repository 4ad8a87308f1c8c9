#!/usr/bin/env python3
"""What recording costs a producer of Kafka: events per second to one real broker, plain and recorded.

Both do what an application does: they make an event of 100 bytes, send it with a delivery callback, and
wait in the end until all are acknowledged. Runs alternate, each in a process of its own with a new topic,
and the medians are compared. A recorded run ends when all is acknowledged; writing what is left of the
history comes after that, and is told separately. Run it on an otherwise idle machine.

`--rate R` sends at most R events per second instead, and compares the CPU time that producers take.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from struct import Struct
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _measure import finish, middle, say, table
from confluent_kafka import KafkaError, Message, Producer

from veristream.brokers.kafka import KafkaClusters
from veristream.brokers.replicated.requests import ask_new_topic
from veristream.recording.kafka.producer import RecordedProducer
from veristream.recording.recording import Recording

KINDS = ("plain", "recorded")
TIME = Struct("<q")
SIZE = 100
PARTITIONS = 3
PATIENCE_S = 120.0
POLL_EVERY = 64
SETTINGS = {"linger.ms": 5, "enable.idempotence": True}


class Count:
    """Counts what is acknowledged."""

    def __init__(self) -> None:
        self.delivered = 0

    def report(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise RuntimeError(str(error))
        self.delivered += 1


def drive(producer: Any, topic: str, events: int, rate: float) -> dict[str, float]:
    """Sends the events; returns the seconds and the CPU seconds until all are acknowledged."""
    count, filler = Count(), b"x" * (SIZE - TIME.size)
    producer.list_topics(timeout=PATIENCE_S)
    begin_s, cpu_s = time.monotonic(), time.process_time()
    for number in range(events):
        value = TIME.pack(time.monotonic_ns()) + filler
        while True:
            try:
                producer.produce(topic, value, on_delivery=count.report)
                break
            except BufferError:
                producer.poll(0.01)
        if number % POLL_EVERY == 0:
            producer.poll(0)
            if rate and (ahead_s := begin_s + number / rate - time.monotonic()) > 0:
                producer.poll(ahead_s)
    left = producer.flush(PATIENCE_S)
    if left or count.delivered != events:
        raise RuntimeError(f"{left} events were not delivered")
    return {"seconds": time.monotonic() - begin_s, "cpu_s": time.process_time() - cpu_s}


def one(kind: str, address: str, topic: str, events: int, rate: float) -> None:
    """The process of one run: prints what it measured."""
    config = {"bootstrap.servers": address, **SETTINGS}
    if kind == "plain":
        print(json.dumps(drive(Producer(config), topic, events, rate)))
        return
    with tempfile.TemporaryDirectory() as folder:
        with Recording(Path(folder) / "history", "kafka") as recording:
            found = drive(RecordedProducer(config, recording, "producer"), topic, events, rate)
            recording.finish()
            begin_s = time.monotonic()
        found["closing_s"] = time.monotonic() - begin_s
        found["bytes"] = sum(path.stat().st_size for path in Path(folder).rglob("*.parquet"))
    if recording.events != 2 * events:
        raise RuntimeError(f"{recording.events} events were recorded, not {2 * events}")
    print(json.dumps(found))


def measure(address: str, events: int, rounds: int, rate: float) -> dict[str, list[dict[str, float]]]:
    """Runs both kinds alternately; the first round warms up the broker and does not count."""
    runs: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    for round_ in range(rounds + 1):
        for kind in KINDS:
            topic = f"recorder-{kind}-{round_}"
            ask_new_topic(address, topic, PARTITIONS, 1, {"retention.bytes": "1"})
            words = (kind, address, topic, str(events), str(rate))
            command = [sys.executable, __file__, "--one", *words]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            if round_:
                runs[kind].append(json.loads(done.stdout.splitlines()[-1]))
    return runs


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        kind, address, topic, events, rate = sys.argv[2:]
        one(kind, address, topic, int(events), float(rate))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=1_000_000, help="events in each run")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each kind")
    parser.add_argument("--rate", type=float, default=0.0, help="events per second, 0 for no limit")
    parser.add_argument("--quick", action="store_true", help="200,000 events, three rounds")
    asked = parser.parse_args()
    events, rounds = (200_000, 3) if asked.quick else (asked.events, asked.rounds)
    with tempfile.TemporaryDirectory() as folder, KafkaClusters(Path(folder)) as clusters:
        clusters.create(1)
        clusters.start()
        runs = measure(clusters.entrances()[0], events, rounds, asked.rate)
    found = {kind: middle(runs[kind], lambda run: run["seconds"]) for kind in KINDS}
    rows = [
        (kind, f"{events / run['seconds']:,.0f}", f"{1e6 * run['cpu_s'] / events:.2f}")
        for kind, run in found.items()
    ]
    table("Events of 100 bytes to one broker", ("producer", "events/s", "µs of CPU per event"), rows)
    recorded = found["recorded"]
    say(f"\nthe history was whole {recorded['closing_s']:.2f} s later,")
    say(f"with {recorded['bytes'] / events:.1f} bytes per event on disk")
    ratios = {"throughput": found["plain"]["seconds"] / recorded["seconds"]}
    ratios["cpu"] = found["plain"]["cpu_s"] / recorded["cpu_s"]
    finish("recorder", ratios, {"events": events, "rate": asked.rate, "runs": runs})


if __name__ == "__main__":
    main()
