"""Snapshots from validators that are slow, or claim more chunks than there are."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import pytest

from tests.kabis.ordering.steady import run_steadily
from tests.kabis.ordering.test_client import Validator, World
from tests.kabis.ordering.test_snapshots import Keeper, keeper
from veristream.kabis.client import following
from veristream.kabis.ledger import snapshot
from veristream.kabis.ledger.follower import Follower
from veristream.kabis.ledger.snapshot import Manifest, restore
from veristream.kabis.ordering import asking
from veristream.kabis.ordering.client import OrderingClient
from veristream.kabis.ordering.requests import Operation, split_request
from veristream.kabis.wire.handshake import Peer

PAUSE_S = 0.2


class Dripping(Keeper):
    """Waits before each chunk, less than the limit of one request."""

    async def answer(self, peer: Peer, body: bytes) -> bytes:
        if split_request(body)[0] is Operation.CHUNK:
            await asyncio.sleep(PAUSE_S)
        return await super().answer(peer, body)


def dripping(height: int, claimed: int = 0) -> Dripping:
    """A slow validator; if it claims a number of chunks, it repeats the first one so often."""
    good = keeper(height)
    chunks = [good.chunks[0]] * claimed if claimed else good.chunks
    return Dripping(replace(good.manifest, chunks=len(chunks)), chunks)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots of the test's chain have eight chunks or more."""
    monkeypatch.setattr(snapshot, "_CHUNK_ROOM", 600)
    assert len(keeper(14).chunks) >= 8


def set_budget(monkeypatch: pytest.MonkeyPatch, source_s: float, chunk_s: float) -> None:
    monkeypatch.setattr(asking, "SOURCE_S", source_s)
    monkeypatch.setattr(asking, "CHUNK_S", chunk_s)


def among(
    validators: Sequence[Validator | None], test: Callable[[World, OrderingClient], Awaitable[None]]
) -> None:
    """Runs a test with a client that is connected to all of these validators."""

    async def connected() -> None:
        world = World(*validators)
        world.genesis = replace(world.genesis, version=2)
        async with world as client:
            client._timeout_s = 2.0
            for number, validator in enumerate(validators):
                if validator is not None:
                    await client.status_of(number)
            await test(world, client)

    run_steadily(connected)


async def take(world: World, client: OrderingClient) -> int | None:
    return await client.snapshot(0, lambda *given: restore(world.genesis, *given).height)


def test_who_claims_far_more_chunks_than_others_is_asked_last() -> None:
    liar = dripping(18, claimed=1000)

    async def test(world: World, client: OrderingClient) -> None:
        assert await take(world, client) == 14

    among((liar, keeper(14), keeper(14), keeper(9)), test)
    assert liar.asked == 0


def test_a_small_claim_does_not_keep_others_from_being_asked() -> None:
    async def test(world: World, client: OrderingClient) -> None:
        assert await take(world, client) == 14

    among((dripping(18, claimed=1), keeper(14), None, None), test)


def test_who_takes_too_long_for_all_chunks_is_left_and_then_avoided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_budget(monkeypatch, source_s=0.3, chunk_s=0.01)
    liar = dripping(18, claimed=10)

    async def test(world: World, client: OrderingClient) -> None:
        assert await take(world, client) == 14
        asked = liar.asked
        assert 1 <= asked <= 4
        assert await take(world, client) == 14
        assert liar.asked == asked

    among((liar, keeper(14), keeper(14), keeper(14)), test)


def test_the_limit_grows_as_long_as_nobody_is_fast_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    set_budget(monkeypatch, source_s=0.1, chunk_s=0.06)
    found = list[int | None]()

    async def test(world: World, client: OrderingClient) -> None:
        while not found or found[-1] is None:
            found.append(await take(world, client))
        assert client._chunk_s == asking.CHUNK_S

    among((dripping(14), None, None, None), test)
    assert found[0] is None and found[-1] == 14


def test_the_limit_of_opening_counts_from_the_last_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "SNAPSHOT_GAP", 3)
    slow = [dripping(14) for _ in range(4)]

    async def test(world: World, client: OrderingClient) -> None:
        follower = Follower(world.genesis)
        heights = list[int]()

        async def move() -> None:
            heights.append(follower.ledger.height)
            for certified in await client.read(follower.next_height, 20):
                follower.follow(certified, 0)

        await following.Pursuit(follower, 4 * PAUSE_S).catch_up(client, move)
        assert heights[0] == 14 and follower.ledger.height == 20

    among(slow, test)


def test_a_snapshot_is_restored_in_another_thread() -> None:
    async def test(world: World, client: OrderingClient) -> None:
        def use(manifest: Manifest, chunks: Sequence[bytes]) -> int:
            return threading.get_ident()

        assert await client.snapshot(0, use) not in (None, threading.get_ident())

    among((keeper(14), None, None, None), test)


def test_a_long_restoration_is_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "RESTORING_TOLD_S", 0.01)
    told = threading.Event()

    async def test(world: World, client: OrderingClient) -> None:
        calls = list[int]()

        def moved() -> None:
            calls.append(1)
            if len(calls) > 3 + len(keeper(14).chunks):
                told.set()

        assert await client.snapshot(0, lambda *_: told.wait(60), moved) is True

    among((keeper(14), None, None, None), test)
