"""What an admin did, the next to look finds: an action waits until most validators know of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.kabis.chain import make_genesis
from tests.kabis.client.world import NAMES, author_of, key_of, make_cluster
from veristream.kabis.channels.interfaces import Channels
from veristream.kabis.client import administration
from veristream.kabis.client.administration import ActionRefusedError, Replica, act_all
from veristream.kabis.ledger.state import Protocol
from veristream.kabis.protocol.actions import Action, SetTopic, Upgrade
from veristream.kabis.protocol.outcomes import Outcome
from veristream_testing.simulation.memory import MemoryCluster, MemoryOrdering

NEW = SetTopic("payments", 1, validated=True)


class Slow(MemoryOrdering):
    """Notes what it is asked to wait for, and waits until it is let go on."""

    def __init__(self, cluster: MemoryCluster, *, stuck: bool) -> None:
        super().__init__(cluster)
        self.stuck = stuck
        self.waited: list[int] = []

    async def spread(self, height: int) -> None:
        self.waited.append(height)
        if self.stuck:
            await asyncio.sleep(1000)


class Deaf(MemoryOrdering):
    """Each validator hears only the second time; a transaction is lost, and no other makes a block."""

    def __init__(self, cluster: MemoryCluster) -> None:
        super().__init__(cluster)
        self.asked: list[int] = []

    async def submit(self, validator: int, transaction: bytes) -> Outcome:
        self.asked.append(validator)
        if self.asked.count(validator) == 1:
            raise TimeoutError("the validator does not answer")
        return await super().submit(validator, transaction)


class Busy(MemoryOrdering):
    """Others have so many blocks made before a new transaction arrives."""

    def __init__(self, cluster: MemoryCluster, blocks: int) -> None:
        super().__init__(cluster)
        self.blocks = blocks
        self.seen: list[bytes] = []

    async def submit(self, validator: int, transaction: bytes) -> Outcome:
        if transaction not in self.seen:
            self.seen.append(transaction)
            for _ in range(self.blocks):
                self._cluster.make_block()
        outcome = await super().submit(validator, transaction)
        self._cluster.make_block()
        return outcome


def act(cluster: MemoryCluster, ordering: MemoryOrdering) -> None:
    async def connect() -> Channels:
        return Channels(cluster.channels(author_of("admin")).storage, ordering)

    act_all(cluster.genesis, connect, author_of("admin"), [NEW])


def test_an_action_is_done_when_most_validators_have_its_block() -> None:
    cluster = make_cluster()
    before = len(cluster.blocks)
    ordering = Slow(cluster, stuck=False)
    act(cluster, ordering)
    assert ordering.waited == [before + 1] == [len(cluster.blocks)]


def test_validators_that_lag_do_not_make_an_action_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(administration, "SPREAD_S", 0.05)
    cluster = make_cluster()
    ordering = Slow(cluster, stuck=True)
    act(cluster, ordering)
    assert ordering.waited == [len(cluster.blocks)]


def test_an_action_that_no_validator_heard_of_is_submitted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(administration, "SUBMIT_AGAIN_S", 0.05)
    cluster = make_cluster()
    before = len(cluster.blocks)
    ordering = Deaf(cluster)
    act(cluster, ordering)
    assert len(cluster.blocks) == before + 1
    assert ordering.asked[:4] == [0, 1, 2, 3]


def upgrade(ordering: Busy, cluster: MemoryCluster, version: int = 2) -> Action:
    """Activates a protocol version ten blocks ahead."""

    async def go() -> Action:
        replica = Replica(cluster.genesis, Channels(cluster.channels(author_of("admin")).storage, ordering))
        await replica.follow_to_end()
        return await replica.act_ahead(author_of("admin"), lambda height: Upgrade(version, height), 10)

    return asyncio.run(go())


def make_old_cluster() -> MemoryCluster:
    genesis = replace(make_genesis(), version=1)
    return MemoryCluster(genesis, {name: key_of(name) for name in NAMES}, at_once=False)


@pytest.mark.parametrize(("blocks", "height"), [(5, 10), (12, 54)])
def test_an_action_that_comes_too_late_for_its_height_is_ordered_further_ahead(
    blocks: int, height: int
) -> None:
    cluster = make_old_cluster()
    ordering = Busy(cluster, blocks)
    assert upgrade(ordering, cluster) == Upgrade(2, height)
    assert cluster.ledger.protocol == Protocol(1, 2, height)
    assert len(ordering.seen) == (1 if height == 10 else 2)


def test_an_action_that_always_comes_too_late_or_is_wrong_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(administration, "MARGIN_MAX_BLOCKS", 40)
    cluster = make_old_cluster()
    ordering = Busy(cluster, 50)
    with pytest.raises(ActionRefusedError, match="has passed"):
        upgrade(ordering, cluster)
    assert len(ordering.seen) == 2
    with pytest.raises(ActionRefusedError, match="version 9"):
        upgrade(ordering, cluster, version=9)
    assert len(ordering.seen) == 2
