#!/usr/bin/env python3
"""What a proxy costs that has nothing to hold: messages of 1 KB per second, direct and through it.

One real broker has a listener that clients reach directly and one that they reach through a proxy, which
runs in a process of its own. Producers are plain confluent-kafka, idempotent with `acks=all`, each in a
process of its own with a new topic; runs alternate, and the medians are compared. `steered` is the same
with a script that looks at every request and answer, and finds nothing to do. Run it on an otherwise idle
machine: broker, client and proxy share its processors.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from subprocess import PIPE

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _measure import finish, middle, say, table
from confluent_kafka import Consumer, Producer, TopicPartition

from veristream.brokers.proxy.kafka import Key
from veristream.brokers.proxy.network import ProxyNetwork
from veristream.brokers.proxy.pieces import KafkaFrames, let_pass
from veristream.brokers.proxy.script import Match, Rule
from veristream.brokers.proxy.steering import Steering
from veristream.brokers.replicated.cluster import ReplicatedKafka
from veristream.brokers.replicated.requests import ask_new_topic

BROKER = "broker-1"
KINDS = ("direct", "proxied", "steered")
SIZE = 1024
PARTITIONS = 3
PATIENCE_S = 120.0
CLIENT = {"linger.ms": 5, "enable.idempotence": True, "acks": "all", "queue.buffering.max.kbytes": 65_536}
CLUSTER = {"log.retention.check.interval.ms": "2000", "log.initial.task.delay.ms": "1000"}
TOPIC = {"retention.bytes": "1", "segment.bytes": str(64 << 20), "file.delete.delay.ms": "0"}
"""Old segments are deleted soon: each run writes as much as a small disk has."""

Runs = dict[str, list[dict[str, float]]]


def produce(address: str, topic: str, messages: int) -> dict[str, float]:
    """Sends the messages; returns the seconds and the CPU seconds until all are acknowledged."""
    producer = Producer({"bootstrap.servers": address, **CLIENT})
    value = b"x" * SIZE
    producer.list_topics(timeout=PATIENCE_S)
    begin_s, cpu_s = time.monotonic(), time.process_time()
    for _ in range(messages):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.001)
    left = producer.flush(PATIENCE_S)
    found = {"seconds": time.monotonic() - begin_s, "cpu_s": time.process_time() - cpu_s}
    consumer = Consumer({"bootstrap.servers": address, "group.id": "bench"})
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, each))[1] for each in range(PARTITIONS)]
    consumer.close()
    if left or sum(ends) != messages:
        raise RuntimeError(f"{left} of {messages} messages are left, {sum(ends)} were stored")
    return found


def stand_in_front(target: str) -> None:
    """The process of the proxy: prints its address, and its CPU time for each line that says what to do."""
    with ProxyNetwork({BROKER: target}, KafkaFrames) as network:
        print(network.address(BROKER), flush=True)
        for line in sys.stdin:
            network.decide = let_pass
            if line.strip() == "steered":
                network.decide = steering = Steering()
                steering.perform(Rule("never", "hold", Match(key=Key.PRODUCE, client="nobody")))
            print(time.process_time(), flush=True)


class Stand:
    """The proxy in front of a broker's listener."""

    def __init__(self, target: str) -> None:
        command = [sys.executable, __file__, "--stand", target]
        self._process = subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True)
        self.address = self._line()

    def do(self, kind: str) -> float:
        """Says how to proxy; returns the CPU seconds of the process so far."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{kind}\n")
        self._process.stdin.flush()
        return float(self._line())

    def end(self) -> None:
        """Ends the process."""
        self._process.communicate("")

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def measure(kafka: ReplicatedKafka, stand: Stand, messages: int, rounds: int) -> Runs:
    """Runs all kinds alternately; the first round warms up the broker and does not count."""
    runs: Runs = {kind: [] for kind in KINDS}
    direct = kafka.address(BROKER)
    for round_ in range(rounds + 1):
        for kind in KINDS:
            topic = f"proxy-{kind}-{round_}"
            ask_new_topic(direct, topic, PARTITIONS, 1, TOPIC)
            before_s = stand.do(kind)
            address = direct if kind == "direct" else stand.address
            command = [sys.executable, __file__, "--one", address, topic, str(messages)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            if round_:
                found = json.loads(done.stdout.splitlines()[-1])
                runs[kind].append({**found, "proxy_cpu_s": stand.do(kind) - before_s})
    return runs


def listener(kafka: ReplicatedKafka) -> str:
    """Returns where the broker listens for those who come through the proxy."""
    text = (kafka.folder / BROKER / "server.properties").read_text(encoding="utf-8")
    found = re.search(r"^listeners=.*INTER://([^,\n]+)", text, re.MULTILINE)
    assert found is not None
    return found[1]


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(produce(sys.argv[2], sys.argv[3], int(sys.argv[4]))))
        return
    if sys.argv[1:2] == ["--stand"]:
        stand_in_front(sys.argv[2])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=1_000_000, help="messages in each run")
    parser.add_argument("--rounds", type=int, default=7, help="runs of each kind")
    parser.add_argument("--quick", action="store_true", help="200,000 messages, three rounds")
    asked = parser.parse_args()
    messages, rounds = (200_000, 3) if asked.quick else (asked.messages, asked.rounds)
    with tempfile.TemporaryDirectory() as folder, ReplicatedKafka(Path(folder), CLUSTER) as kafka:
        kafka.create(1)
        stand = Stand(listener(kafka))
        try:
            kafka.advertise(BROKER, stand.address, "INTER")
            kafka.start()
            runs = measure(kafka, stand, messages, rounds)
        finally:
            stand.end()
    report(runs, messages)


def report(runs: Runs, messages: int) -> None:
    """Prints and writes what was measured."""
    found = {kind: middle(runs[kind], lambda run: run["seconds"]) for kind in KINDS}
    rows = [
        (
            kind,
            f"{messages / run['seconds']:,.0f}",
            f"{messages * SIZE / run['seconds'] / 1e6:,.0f}",
            f"{1e6 * run['cpu_s'] / messages:.2f}",
            f"{1e6 * run['proxy_cpu_s'] / messages:.2f}",
        )
        for kind, run in found.items()
    ]
    head = ("producer", "messages/s", "MB/s", "µs of CPU per message", "and of the proxy")
    table("Messages of 1 KB to one broker", head, rows)
    direct = found["direct"]["seconds"]
    ratios = {"over_kafka": direct / found["proxied"]["seconds"]}
    ratios["steered_over_kafka"] = direct / found["steered"]["seconds"]
    say()
    finish("proxy", ratios, {"messages": messages, "size": SIZE, "runs": runs})


if __name__ == "__main__":
    main()
