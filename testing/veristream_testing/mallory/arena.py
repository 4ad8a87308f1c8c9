"""A real cluster with honest clients, and Mallory beside them; and how long honest events take."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from veristream.kabis.client.administration import act_all
from veristream.kabis.client.consumer.consumer import KabisConsumer
from veristream.kabis.client.options import ConsumerOptions
from veristream.kabis.client.producer.producer import KabisProducer
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.cluster.folder import ADMIN, ClusterFolder
from veristream.kabis.protocol.actions import (
    Action,
    Grant,
    Operation,
    RegisterKey,
    Resource,
    Rule,
    SetTopic,
)
from veristream.kabis.protocol.records import Record
from veristream.kabis.protocol.transactions import prove_possession

TOPIC = "orders"
WIDE = "wide"
WIDE_PARTITIONS = 8
GROUP = "readers"
READER = "zoe"
"""The honest member of the group; thieves come before her in the order of members."""
PATIENCE_S = 120.0


def call_attacker(attack: str) -> str:
    """Returns the name of the client that goes on an attack, so that each is blamed for its own."""
    return f"m-{attack.replace('_', '-')}"


@dataclass(slots=True)
class Arena:
    """A cluster with an honest producer and an honest member of a group that only she may join."""

    cluster: Cluster
    producer: KabisProducer
    consumer: KabisConsumer
    pushed: int = 0
    delivered: list[bytes] = field(default_factory=list)

    def work(self, events: int) -> list[float]:
        """Pushes events one after the other, and pulls until all are delivered; returns milliseconds.

        Raises AssertionError if an event is lost, comes twice or in another order.
        """
        latencies = []
        for number in range(self.pushed, self.pushed + events):
            began_s = time.monotonic()
            self.producer.push(Record(TOPIC, b"%d" % number)).result(PATIENCE_S)
            latencies.append(1000 * (time.monotonic() - began_s))
        self.pushed += events
        deadline_s = time.monotonic() + PATIENCE_S
        while len(self.delivered) < self.pushed and time.monotonic() < deadline_s:
            self.delivered += [event.value or b"" for event in self.consumer.pull(0.1)]
        assert self.delivered == [b"%d" % number for number in range(self.pushed)]
        return latencies

    def memory_mib(self) -> dict[str, int]:
        """Returns the most that each party has held since it started."""
        found = {}
        for name, running in self.cluster.running.items():
            status = Path(f"/proc/{running.pid}/status").read_text(encoding="utf-8")
            peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
            found[name] = int(peak.split()[1]) >> 10
        return found


@contextmanager
def opened(data: Path, attacks: Iterable[str]) -> Iterator[Arena]:
    """A new cluster that knows the attackers of these attacks; all is gone in the end."""
    with Cluster(ClusterFolder(data)) as cluster:
        cluster.create()
        cluster.start()
        access = Access(cluster.folder)
        clients = [READER, *map(call_attacker, attacks)]
        actions: list[Action] = [
            SetTopic(TOPIC, 1, validated=True),
            SetTopic(WIDE, WIDE_PARTITIONS, validated=True),
            Grant(Rule(Resource.GROUP, GROUP, Operation.READ, READER)),
        ]
        for name in clients:
            key = cluster.folder.add_client(name)
            proof = prove_possession(access.genesis.chain_id, name, 0, key)
            actions.append(RegisterKey(name, 0, key.public, proof))
        act_all(access.genesis, access.admin(), access.author(ADMIN), actions)
        options = ConsumerOptions(group=GROUP, session_ms=600_000)
        with access.producer() as producer, access.consumer(READER, options) as consumer:
            consumer.subscribe([TOPIC])
            yield Arena(cluster, producer, consumer)


@contextmanager
def attacked(arena: Arena, attack: str) -> Iterator[Callable[[], bool]]:
    """Has Mallory attack in a process of its own; gives whether the attack still goes on."""
    words = [sys.executable, "-m", "veristream_testing.mallory", str(arena.cluster.folder.path), attack]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as mallory:
        assert mallory.stdout is not None
        try:
            assert json.loads(mallory.stdout.readline()) == {"going": attack}
            yield lambda: mallory.poll() is None
        finally:
            mallory.kill()


def percentile(latencies: list[float]) -> float:
    """Returns the 99th percentile, which of a few is the largest."""
    return sorted(latencies)[int(0.99 * len(latencies))]
