"""A registered client attacks, and honest ones go on: nothing is lost, nobody dies, memory is bounded.

Latencies are printed (`-s`), and not asserted: they depend on the machine.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.kabis.mallory.mallory import ATTACKS, NAME, Target, find_targets
from tests.kabis.session.console import Console
from veristream.kabis.client.consumer.consumer import KabisConsumer
from veristream.kabis.client.producer.producer import KabisProducer
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.protocol.records import Record

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("mallory")]

ROOT = Path(__file__).parents[3]
TOPIC = "orders"
EVENTS = 30
PATIENCE_S = 120.0
MEMORY_MAX_MIB = 400
"""An undisturbed party has about 40. One identity may make it hold 64 MiB of requests, as much of frames
that have no end, 32 MiB of answers, and what the C library keeps of freed memory."""

NAMED = {
    "half_open": "address 127.0.0.1: half-open connections",
    "slow_loris": "address 127.0.0.1: ",
    "garbage": "address 127.0.0.1: bad handshake",
    "strangers": "address 127.0.0.1: refused key",
    "impostor": "address 127.0.0.1: refused key",
    "all_connections": f"producer {NAME}: connections",
    "oversized": f"producer {NAME}: broken rules of the wire",
    "forged": f"producer {NAME}: broken rules of the wire",
    "replayed": f"producer {NAME}: broken rules of the wire",
    "votes": f"producer {NAME}: broken rules of the wire",
    "pings": f"producer {NAME}: broken rules of the wire",
    "unfinished": f"producer {NAME}: broken rules of the wire",
    "request_flood": f"producer {NAME}: ",
}
"""What the status says of an attack; the others stay within their quotas."""


@dataclass(slots=True)
class Arena:
    """A cluster with honest clients, and how long their events took."""

    cluster: Cluster
    producer: KabisProducer
    consumer: KabisConsumer
    pushed: int = 0
    delivered: list[bytes] = field(default_factory=list)
    undisturbed_ms: float = 0.0

    def work(self) -> list[float]:
        """Pushes events one after the other, and pulls until all are delivered; returns the latencies."""
        latencies = []
        for number in range(self.pushed, self.pushed + EVENTS):
            began_s = time.monotonic()
            self.producer.push(Record(TOPIC, b"%d" % number)).result(PATIENCE_S)
            latencies.append(1000 * (time.monotonic() - began_s))
        self.pushed += EVENTS
        deadline_s = time.monotonic() + PATIENCE_S
        while len(self.delivered) < self.pushed and time.monotonic() < deadline_s:
            self.delivered += [event.value or b"" for event in self.consumer.pull(0.1)]
        assert self.delivered == [b"%d" % number for number in range(self.pushed)]
        return latencies

    def memory_mib(self) -> dict[str, int]:
        """The most that each party has held since it started."""
        found = {}
        for name, running in self.cluster.running.items():
            status = Path(f"/proc/{running.pid}/status").read_text(encoding="utf-8")
            peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
            found[name] = int(peak.split()[1]) >> 10
        return found

    def require_unharmed(self) -> dict[str, int]:
        assert self.cluster.ended() == {}
        memory = self.memory_mib()
        assert max(memory.values()) < MEMORY_MAX_MIB, memory
        return memory


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    data = tmp_path_factory.mktemp("mallory") / "cluster"
    console = Console(data)
    with Cluster(ClusterFolder(data)) as cluster:
        cluster.create()
        cluster.start()
        console.do("topic", "create", TOPIC)
        console.do("client", "add", NAME)
        access = Access(cluster.folder)
        with access.producer() as producer, access.consumer() as consumer:
            consumer.subscribe([TOPIC])
            arena = Arena(cluster, producer, consumer)
            arena.work()
            arena.undisturbed_ms = percentile(arena.work())
            yield arena


def percentile(latencies: list[float]) -> float:
    """The 99th percentile, which is the largest of so few."""
    return sorted(latencies)[int(0.99 * len(latencies))]


@contextmanager
def attacked(arena: Arena, attack: str) -> Iterator[None]:
    words = [sys.executable, "-m", "tests.kabis.mallory.mallory", str(arena.cluster.folder.path), attack]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as mallory:
        assert mallory.stdout is not None
        assert mallory.stdout.readline() == b"going\n"
        try:
            yield
            assert mallory.poll() is None, "the attack went on all the time"
        finally:
            mallory.kill()


@pytest.mark.parametrize("attack", [each.__name__ for each in ATTACKS])
def test_honest_clients_go_on(arena: Arena, attack: str) -> None:
    with attacked(arena, attack):
        latencies = arena.work()
    memory = arena.require_unharmed()
    told = f"p99 {percentile(latencies):.0f} ms, undisturbed {arena.undisturbed_ms:.0f} ms"
    sys.stdout.write(f"\n{attack}: {told}; at most {max(memory.values())} MiB\n")
    if attack in NAMED:
        line = f"limit: {NAMED[attack]}"
        seen = Console(arena.cluster.folder.path).look(lambda seen: line in seen.output, "status")
        assert line in seen.output


def test_a_revoked_key_has_to_leave_every_party(arena: Arena) -> None:
    console = Console(arena.cluster.folder.path)
    console.do("client", "add", "nessie")
    access = Access(arena.cluster.folder)

    async def hold(target: Target) -> None:
        (reader, _writer), _session = await target.enter(access.identity("nessie", target.me.role))
        held.append(target.party.name)
        async with asyncio.timeout(PATIENCE_S):
            while await reader.read(1 << 16):
                pass

    held: list[str] = []

    async def test() -> None:
        targets = find_targets(arena.cluster.folder)
        holding = [asyncio.ensure_future(hold(each)) for each in targets]
        while len(held) < len(targets):
            await asyncio.sleep(0.01)
        await asyncio.to_thread(console.do, "key", "revoke", "nessie")
        await asyncio.gather(*holding)

    asyncio.run(test())
    arena.work()
    arena.require_unharmed()
    status = json.loads(console.do("status", "--json").output)
    assert ("producer nessie", "ended key") in {
        (each["who"], each["limit"]) for each in status["offenders"]
    }
