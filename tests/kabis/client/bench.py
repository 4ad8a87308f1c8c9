"""How many events one process takes from push to pull: `python -m tests.kabis.client.bench [--profile]`.

Producer and consumer share an event loop; validators and storage parties are in memory. With `shelf` the
storage parties only keep what they get, so that the clients' own work is what is measured; with `party` all
three verify every batch, as they do when they run as processes of their own.
"""

from __future__ import annotations

import asyncio
import cProfile
import pstats
import sys
import time

from tests.kabis.client.world import author_of, connect_to, make_cluster
from veristream.kabis.channels.interfaces import Channels, Connect
from veristream.kabis.client.consumer.consumer import AsyncKabisConsumer
from veristream.kabis.client.options import ConsumerOptions
from veristream.kabis.client.producer.producer import AsyncKabisProducer
from veristream.kabis.protocol.answers import Absent, Below
from veristream.kabis.protocol.receipts import StorageReceipt, sign_storage_receipt
from veristream.kabis.protocol.records import Record
from veristream.kabis.protocol.transactions import Author
from veristream_testing.simulation.memory import MemoryCluster, MemoryOrdering, MemoryStorage

EVENTS = 200_000


class Shelf(MemoryStorage):
    """A storage party that keeps batches without looking at them."""

    kept: dict[str, dict[bytes, bytes]] = {}  # noqa: RUF012 (shared by all clients on purpose)

    async def store(self, batch: bytes, digest: bytes) -> StorageReceipt:
        self.kept.setdefault(self.name, {})[digest] = batch
        key = self._cluster.keys[self.name]
        return sign_storage_receipt(self._cluster.genesis.chain_id, self.name, digest, key)

    async def fetch_bytes(self, digest: bytes) -> bytes | Absent | Below:
        return self.kept[self.name].get(digest, Absent())


def connect_shelves(cluster: MemoryCluster, author: Author) -> Connect:
    async def connect() -> Channels:
        shelves = tuple(Shelf(cluster, party.name, author) for party in cluster.genesis.storage)
        return Channels(shelves, MemoryOrdering(cluster))

    return connect


async def measure(storage: str, keyed: bool, events: int = EVENTS) -> tuple[float, float]:
    """Seconds on the clock and of the processor, from the first push to the last pull."""
    cluster = make_cluster()
    connect = connect_shelves if storage == "shelf" else connect_to
    alice, bob = author_of("alice"), author_of("bob")
    value, keys = b"x" * 100, [b"customer-%d" % number for number in range(1000)]
    async with (
        AsyncKabisProducer(cluster.genesis, alice, connect(cluster, alice)) as producer,
        AsyncKabisConsumer(cluster.genesis, bob, connect(cluster, bob), ConsumerOptions()) as consumer,
    ):
        consumer.subscribe(["orders"])
        began, began_cpu = time.perf_counter(), time.process_time()

        async def push() -> None:
            for number in range(events):
                key = keys[number % 1000] if keyed else None
                await producer.push(Record("orders", value, key))
                if number % 2000 == 0:
                    await asyncio.sleep(0)

        pushing = asyncio.create_task(push())
        pulled = 0
        while pulled < events:
            pulled += len(await consumer.pull(10))
        await pushing
        return time.perf_counter() - began, time.process_time() - began_cpu


def main() -> None:
    for storage in ("shelf", "party"):
        for keyed in (False, True):
            clock_s, cpu_s = asyncio.run(measure(storage, keyed))
            kind = "keyed" if keyed else "unkeyed"
            rates = f"{EVENTS / clock_s:9,.0f} events/s by clock {EVENTS / cpu_s:9,.0f} by the processor"
            sys.stdout.write(f"{storage:6} {kind:8} {rates} {1e6 * cpu_s / EVENTS:6.2f} µs per event\n")


def profile() -> None:
    profiler = cProfile.Profile()
    profiler.runcall(asyncio.run, measure("shelf", True, 50_000))
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    profile() if "--profile" in sys.argv else main()
