"""The faces: blocking, closing, callbacks, asyncio; and what is bounded."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kabis.chain import CHAIN, certificate_for
from tests.kabis.client.world import (
    FOR_EVER_MS,
    author_of,
    connect_to,
    consuming,
    make_cluster,
    producing,
    pull,
    values,
    wait_until,
)
from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.channels.interfaces import Channels, OrderingStatus
from veristream.kabis.client.consumer.consumer import AsyncKabisConsumer, KabisConsumer
from veristream.kabis.client.errors import BufferFullError, ClosedError, KeyEndedError
from veristream.kabis.client.options import ConsumerOptions, ProducerOptions
from veristream.kabis.client.producer.producer import AsyncKabisProducer, KabisProducer
from veristream.kabis.client.pushes import Pushed
from veristream.kabis.cluster.faults import StorageFault
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.receipts import StorageReceipt
from veristream.kabis.protocol.records import Record, TooLargeError
from veristream.kabis.protocol.seal import Sealer, TopicKeys
from veristream_testing.simulation.memory import MemoryOrdering, MemoryStorage


def test_a_full_buffer_makes_push_wait_and_then_fail() -> None:
    cluster = make_cluster(at_once=False)
    with producing(cluster, buffer_bytes=1000) as producer:
        pushed = [producer.push(Record("orders", b"x" * 281, partition=0)) for _ in range(3)]
        with pytest.raises(BufferFullError):
            producer.push(Record("orders", b"x" * 281, partition=0), timeout=0.05)
        assert producer.metrics()["buffered_bytes"] == 900
        waiting: list[Pushed] = []
        late = Record("orders", b"y" * 281, partition=0)
        thread = threading.Thread(target=lambda: waiting.append(producer.push(late)))
        thread.start()
        wait_until(lambda: len(cluster.mempool) > 0)
        assert not waiting
        wait_until(lambda: (bool(cluster.make_block()) and pushed[0].done()) or pushed[0].done())
        thread.join(30)
        assert len(waiting) == 1
        cluster.at_once = True


def test_one_event_larger_than_the_buffer_still_goes() -> None:
    cluster = make_cluster()
    with producing(cluster, buffer_bytes=10) as producer:
        assert producer.push(Record("orders", b"x" * 100, partition=0)).result(30).index == 0
        with pytest.raises(TooLargeError):
            producer.push(Record("orders", bytes(1 << 20), partition=0))


def test_a_consumer_holds_little_more_than_its_buffer() -> None:
    cluster = make_cluster()
    with producing(cluster, batch_events=10, linger_ms=FOR_EVER_MS) as producer:
        for _ in range(300):
            producer.push(Record("orders", b"x" * 1000, partition=0))
        producer.flush(30)
    with consuming(cluster, buffer_bytes=30_000, prefetch_batches=30) as consumer:
        held = []
        for _ in range(300):
            assert len(pull(consumer, 1)) == 1
            held.append(consumer.metrics()["buffered_bytes"])
        # Batches of 10 KB: the buffer, and by how much we were wrong about those on their way.
        assert 20_000 < max(held) <= 33_000
        assert consumer.metrics()["buffered_bytes"] == 0


def test_a_failure_that_nobody_foresaw_ends_the_client_and_is_told() -> None:
    cluster = make_cluster()

    class Broken(MemoryStorage):
        async def store(self, batch: bytes, digest: bytes) -> StorageReceipt:
            raise RuntimeError("a bug")

    async def connect() -> Channels:
        channels = cluster.channels(author_of("alice"))
        return Channels(
            (Broken(cluster, "s0", author_of("alice")), *channels.storage[1:]), channels.ordering
        )

    cluster.parties["s1"].fault = cluster.parties["s2"].fault = StorageFault.SILENT
    with KabisProducer(cluster.genesis, author_of("alice"), connect, journal=None) as producer:
        cluster.parties["s1"].fault = None
        with pytest.raises(ClosedError):
            producer.push(Record("orders", b"x", partition=0)).result(30)
        with pytest.raises(RuntimeError, match="a bug"):
            producer.push(Record("orders", b"x", partition=0))


def test_what_is_closed_says_so() -> None:
    cluster = make_cluster(at_once=False)
    with producing(cluster) as producer:
        waiting = producer.push(Record("orders", b"x", partition=0))
        producer.close(timeout=0.01)
        with pytest.raises(ClosedError):
            waiting.result(0)
        with pytest.raises(ClosedError):
            producer.push(Record("orders", b"x"))
    with consuming(cluster) as consumer:
        consumer.close()
        with pytest.raises(ClosedError):
            consumer.pull()
    unopened = KabisProducer(cluster.genesis, author_of("alice"), connect_to(cluster, author_of("alice")))
    with pytest.raises(ClosedError, match="opened before it is used"):
        unopened.push(Record("orders", b"x"))
    unopened.close()


def test_closing_flushes() -> None:
    cluster = make_cluster()
    with producing(cluster, linger_ms=60_000) as producer:
        pushed = [producer.push(Record("orders", b"%d" % n)) for n in range(10)]
    assert all(each.exception(0) is None for each in pushed)
    assert sum(cluster.ledger.partition("orders", p).next_index for p in (0, 1)) == 10


def test_callbacks_are_called_with_the_future() -> None:
    cluster = make_cluster()
    with producing(cluster) as producer:
        called: list[Pushed] = []
        pushed = producer.push(Record("orders", b"x", partition=0))
        pushed.add_done_callback(called.append)
        assert pushed.result(30).index == 0
        wait_until(lambda: called == [pushed])
        pushed.add_done_callback(called.append)
        assert called == [pushed, pushed]


def test_the_asyncio_faces_do_the_same() -> None:
    cluster = make_cluster()

    async def run() -> list[bytes | None]:
        alice, bob = author_of("alice"), author_of("bob")
        options = ConsumerOptions(group="g")
        async with (
            AsyncKabisProducer(cluster.genesis, alice, connect_to(cluster, alice)) as producer,
            AsyncKabisConsumer(cluster.genesis, bob, connect_to(cluster, bob), options) as consumer,
        ):
            consumer.subscribe(["orders"])
            pushed = [await producer.push(Record("orders", b"%d" % n, partition=1)) for n in range(5)]
            assert [(await each).index for each in pushed] == list(range(5))
            assert (await pushed[0]).index == 0, "it may be awaited again"
            seen = await consumer.pull(30)
            await consumer.commit()
            assert consumer.committed(("orders", 1)) == 5
            many = await producer.push_all("logs", [b"a", b"b"], b"k")
            assert [each.index for each in await many] == [0, 1]
            assert await consumer.pull(0.01) == []
            with pytest.raises(ModelError):
                await producer.push(Record("elsewhere", b"x"))
            return values(seen)

    assert asyncio.run(run()) == [b"0", b"1", b"2", b"3", b"4"]
    assert cluster.ledger.group("g").members == ()


def test_an_asyncio_push_waits_for_room() -> None:
    cluster = make_cluster()

    async def run() -> int:

        alice = author_of("alice")
        options = ProducerOptions(buffer_bytes=500, linger_ms=1)
        async with AsyncKabisProducer(
            cluster.genesis, alice, connect_to(cluster, alice), options
        ) as producer:
            pushed = [await producer.push(Record("orders", b"x" * 200)) for _ in range(20)]
            return len([await each for each in pushed])

    assert asyncio.run(run()) == 20


def test_validators_that_do_not_answer_are_a_clear_error(tmp_path: Path) -> None:
    cluster = make_cluster()

    class Dead(MemoryOrdering):
        async def status(self) -> OrderingStatus:
            raise TimeoutError("nobody")

    async def connect() -> Channels:
        return Channels(cluster.channels(author_of("alice")).storage, Dead(cluster))

    for _ in range(2):  # the journal is let go of
        producer = KabisProducer(cluster.genesis, author_of("alice"), connect, journal=tmp_path)
        with pytest.raises(EnvironmentFailure, match="too few validators answer"):
            producer.open(timeout=0.05)
        producer.close()
    consumer = KabisConsumer(cluster.genesis, None, connect)
    with pytest.raises(EnvironmentFailure, match="too few validators answer"):
        consumer.open(timeout=0.05)
    consumer.close()


def test_a_block_that_was_never_decided_changes_nothing() -> None:
    cluster = make_cluster()

    class Lying(MemoryOrdering):
        """Gives another block with too few votes first, and the decided ones when it is asked again."""

        lies = 1

        async def follow(self, height: int):  # type: ignore[no-untyped-def]
            for certified in cluster.blocks[height - 1 :]:
                if self.lies:
                    self.lies -= 1
                    header = replace(certified.block.header, time_ms=certified.block.header.time_ms + 1)
                    block = replace(certified.block, header=header)
                    yield CertifiedBlock(block, certificate_for(block, (0, 1)))
                yield certified
            async for certified in super().follow(len(cluster.blocks) + 1):
                yield certified

    async def connect() -> Channels:
        return Channels(cluster.channels(author_of("alice")).storage, Lying(cluster))

    with KabisProducer(cluster.genesis, author_of("alice"), connect) as producer:
        assert producer.push(Record("orders", b"x", partition=0)).result(30).index == 0


def test_sealed_events_open_for_those_who_have_the_key() -> None:
    cluster = make_cluster()
    sealer = Sealer(CHAIN, TopicKeys("orders", 0, {0: b"k" * 32}))
    other = Sealer(CHAIN, TopicKeys("orders", 0, {0: b"o" * 32}))
    with producing(cluster, sealers={"orders": sealer}) as producer:
        done = producer.push(Record("orders", b"secret", key=b"anna", partition=0)).result(30)
        assert done.index == 0
    with consuming(cluster, sealers={"orders": sealer}) as consumer:
        (event,) = pull(consumer, 1)
        assert (event.key, event.value) == (b"anna", b"secret")
    with consuming(cluster) as outsider:
        (event,) = pull(outsider, 1)
        assert event.key is None and event.value is not None and b"secret" not in event.value
    with consuming(cluster, sealers={"orders": other}) as stranger:
        assert stranger.pull(0.1) == []
        wait_until(lambda: stranger.pull(0.01) == [] and stranger.position(("orders", 0)) == 1)
        assert stranger.metrics()["delivered"] == 0
    for party in cluster.parties.values():
        assert b"secret" not in b"".join(record.payload for record in party.log.records())  # type: ignore[union-attr]


def test_a_key_that_nobody_registered_is_a_clear_error() -> None:
    cluster = make_cluster()
    with producing(cluster, "mallory") as producer, pytest.raises(KeyEndedError, match="not registered"):
        producer.push(Record("orders", b"x"))
    with consuming(cluster, name="mallory", group="g") as consumer:
        wait_until(lambda: consumer._inner._core._membership.problem is not None)  # type: ignore[union-attr]
        with pytest.raises(KeyEndedError, match="not registered"):
            consumer.pull()
    with pytest.raises(ModelError, match="needs a key"):
        KabisConsumer(
            cluster.genesis, None, connect_to(cluster, author_of("bob")), ConsumerOptions(group="g")
        )


def test_a_late_party_changes_nothing() -> None:
    cluster = make_cluster(delay_s=0.1)
    with producing(cluster) as producer:
        for number in range(5):
            producer.push(Record("orders", b"%d" % number, partition=0))
        producer.flush(30)
    for party in cluster.parties.values():
        party.fault = StorageFault.LATE
    with consuming(cluster, fetch_timeout_ms=10) as consumer:
        assert values(pull(consumer, 5)) == [b"0", b"1", b"2", b"3", b"4"]
        assert consumer.pull(0.15) == [], "later answers to the same question deliver nothing more"
