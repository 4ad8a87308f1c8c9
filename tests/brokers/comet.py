"""A CometBFT chain for tests, and a client of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from tests.kabis.chain import STORAGE, key_of, party
from tests.missing import is_missing
from veristream.brokers.cometbft import CometNetwork, find_program
from veristream.errors import EnvironmentFailure
from veristream.kabis.channels.failures import FAILURES
from veristream.kabis.channels.interfaces import Channels
from veristream.kabis.client.administration import Replica
from veristream.kabis.cometbft.application import CometStatus
from veristream.kabis.cometbft.client import CometOrdering
from veristream.kabis.cometbft.founding import found, read_network
from veristream.kabis.protocol.actions import SetTopic
from veristream.kabis.protocol.genesis import Genesis, StorageMode
from veristream.kabis.protocol.transactions import Author

PATIENCE_S = 120.0
POLL_S = 0.05

Value = TypeVar("Value")


@contextmanager
def running(folder: Path, kind: type[CometNetwork] = CometNetwork) -> Iterator[CometNetwork]:
    """Runs four validators and removes them afterwards."""
    try:
        find_program()
    except EnvironmentFailure as missing:
        is_missing(missing.render())
    with kind(folder) as network:
        network.create(4)
        network.start()
        yield network


def addresses(network: CometNetwork) -> list[str]:
    return [network.address(name) for name in network.names()]


def make_genesis(network: CometNetwork) -> Genesis:
    """Founds a chain on these nodes and returns its genesis."""
    known = read_network(addresses(network))
    genesis = Genesis(
        chain_id=known.chain_id,
        time_ms=1_700_000_000_000,
        faults=1,
        storage_mode=StorageMode.TOLERANT,
        validators=known.validators,
        storage=tuple(map(party, STORAGE)),
        admins=(party("admin"),),
    )
    found(genesis)
    return genesis


def admin_of(genesis: Genesis) -> Author:
    return Author(genesis.chain_id, "admin", 0, key_of("admin"))


async def create_topics(replica: Replica, names: list[str]) -> None:
    """Submits one transaction after the other, so that each is in a separate block."""
    for name in names:
        await replica.act(admin_of(replica.follower.genesis), SetTopic(name, 1, validated=True))


async def reach(ordering: CometOrdering, validator: int, height: int) -> CometStatus:
    """Waits until a node has reached the height and returns its status."""
    while True:
        with suppress(*FAILURES):
            status = await ordering.status_of(validator)
            if status.height >= height:
                return status
        await asyncio.sleep(POLL_S)


async def reach_all(replica: Replica) -> None:
    """Follows the chain until all nodes have what any of them has."""
    ordering = replica.channels.ordering
    assert isinstance(ordering, CometOrdering)
    numbers = range(len(replica.follower.genesis.validators))
    low = high = -1
    while low < high or high < 0:
        found = [await reach(ordering, number, max(high, 0)) for number in numbers]
        low, high = min(each.height for each in found), max(each.height for each in found)
    await replica.follow(high)


def visit(genesis: Genesis, *works: Callable[[Replica], Awaitable[Value]]) -> list[Value]:
    """Runs clients concurrently, each with its own channels, and returns their results.

    They begin when all validators are equally far.
    """

    async def bounded() -> list[Value]:
        async with asyncio.timeout(PATIENCE_S):
            replicas = [Replica(genesis, Channels((), CometOrdering(genesis))) for _ in works]
            for replica in replicas:
                await reach_all(replica)
            return await asyncio.gather(
                *(work(replica) for work, replica in zip(works, replicas, strict=True))
            )

    return asyncio.run(bounded())
