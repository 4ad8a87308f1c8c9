"""A running client whose next block the validators have pruned meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from tests.kabis.client.world import author_of, make_cluster
from tests.kabis.ordering.steady import run_steadily
from tests.kabis.ordering.test_client import Validator, World, honest
from tests.kabis.ordering.test_snapshots import BLOCKS, Keeper, keeper
from veristream.kabis.channels.interfaces import Channels
from veristream.kabis.client import following
from veristream.kabis.client.administration import Replica
from veristream.kabis.client.consumer.consumer import AsyncKabisConsumer
from veristream.kabis.client.errors import MissedBlocksError
from veristream.kabis.client.following import watch_for_pruning
from veristream.kabis.client.producer.producer import AsyncKabisProducer
from veristream.kabis.ledger.follower import Follower
from veristream.kabis.ledger.snapshot import Manifest
from veristream.kabis.ordering.requests import Operation, Read, split_request
from veristream.kabis.protocol.actions import SetTopic
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.records import Record
from veristream.kabis.wire.endpoints import RequestError
from veristream.kabis.wire.handshake import Peer
from veristream_testing.simulation.memory import MemoryOrdering, Value

LOOK_S = 0.05
FOLLOWED = 5


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "LOOK_EVERY_S", LOOK_S)


async def pruned(validator: Validator, read: Read) -> bytes:
    if read.first < 15:
        raise RequestError("pruned below block 15; take a snapshot")
    return await honest(validator, read)


def pruning(height: int = 14) -> Keeper:
    validator = keeper(height)
    validator.answer_read = pruned
    return validator


def watch(*validators: Validator | None) -> bool:
    """Whether a follower of five blocks is told, within ten looks, that the next one is pruned."""
    told = list[bool]()

    async def test() -> None:
        world = World(*validators)
        world.genesis = replace(world.genesis, version=2)
        follower = Follower(world.genesis)
        for certified in BLOCKS[:FOLLOWED]:
            follower.follow(certified, 0)
        async with world as client:
            for number, validator in enumerate(validators):
                if validator is not None:
                    await client.status_of(number)
            try:
                async with asyncio.timeout(10 * LOOK_S):
                    await watch_for_pruning(client, follower)
            except MissedBlocksError:
                told.append(True)
            except TimeoutError:
                told.append(False)

    run_steadily(test)
    return told[0]


def test_who_cannot_obtain_its_next_block_is_told() -> None:
    assert watch(pruning(), pruning(), pruning(), None)


def test_a_single_validator_cannot_tell_so() -> None:
    assert not watch(pruning(), Validator(known=BLOCKS), Validator(known=BLOCKS), None)


def test_too_few_validators_cannot_tell_so() -> None:
    assert not watch(pruning(), pruning(), None, None)


def test_without_a_later_snapshot_there_is_hope() -> None:
    assert not watch(pruning(4), pruning(4), pruning(4), None)


class Forgetful(MemoryOrdering):
    """Validators that prune all blocks as soon as a test says so."""

    prunes = False

    async def follow(self, height: int) -> AsyncIterator[CertifiedBlock]:
        async for certified in super().follow(height):
            if self.prunes:
                await asyncio.Event().wait()
            yield certified

    async def read(self, first: int, last: int) -> Sequence[CertifiedBlock]:
        return [] if self.prunes else await super().read(first, last)

    async def snapshot(
        self,
        above: int,
        use: Callable[[Manifest, Sequence[bytes]], Value],
        moved: Callable[[], object] = lambda: None,
    ) -> Value | None:
        return use(cast(Any, None), ()) if self.prunes else None


def test_clients_that_missed_blocks_fail_loudly() -> None:
    cluster = make_cluster()
    orderings = list[Forgetful]()

    async def connect() -> Channels:
        orderings.append(Forgetful(cluster))
        return Channels(cluster.channels(author_of("alice")).storage, orderings[-1])

    async def test() -> None:
        consumer = AsyncKabisConsumer(cluster.genesis, None, connect)
        producer = AsyncKabisProducer(cluster.genesis, author_of("alice"), connect)
        async with consumer, producer:
            consumer.subscribe(["orders"])
            await asyncio.sleep(3 * LOOK_S)
            await consumer.pull(0.0)
            for ordering in orderings:
                ordering.prunes = True
            height = cluster.ledger.height
            cluster.act("admin", SetTopic("more", 1, validated=True))
            while consumer._driver.crash is None or producer._driver.crash is None:
                await asyncio.sleep(LOOK_S)
            with pytest.raises(MissedBlocksError, match=f"to block {height},.* pruned the next"):
                await consumer.pull(LOOK_S)
            with pytest.raises(MissedBlocksError):
                await producer.push(Record("orders", b"late"))

    run_steadily(test)


class Moving(Keeper):
    """Replaces its snapshot by a newer one while it is fetched, for as long as a test says so."""

    fetched_until = 0

    async def answer(self, peer: Peer, body: bytes) -> bytes:
        if split_request(body)[0] is Operation.CHUNK and self.asked < self.fetched_until:
            self.asked += 1
            raise RequestError("there is no chunk 0 of a snapshot at 14")
        return await super().answer(peer, body)


def test_who_opens_tries_again_if_a_snapshot_is_replaced_while_it_is_fetched() -> None:
    good = keeper(14)
    validators = [Moving(good.manifest, good.chunks) for _ in range(4)]
    for validator in validators:
        validator.answer_read, validator.fetched_until = pruned, 2

    async def test() -> None:
        world = World(*validators)
        world.genesis = replace(world.genesis, version=2)
        async with world as client:
            replica = Replica(world.genesis, Channels((), client))
            await replica.follow_to_end(20.0)
            assert replica.ledger.height == len(BLOCKS)

    run_steadily(test)
    assert sum(validator.asked for validator in validators) > 4
