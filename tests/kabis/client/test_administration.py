"""What an admin did, the next to look finds: an action waits until most validators know of it."""

from __future__ import annotations

import asyncio

import pytest

from tests.kabis.client.world import author_of, make_cluster
from veristream.kabis.channels.interfaces import Channels
from veristream.kabis.client import administration
from veristream.kabis.client.administration import act_all
from veristream.kabis.protocol.actions import SetTopic
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
