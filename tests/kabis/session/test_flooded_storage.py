"""A registered client floods the storage parties of a real cluster: they refuse, and others are served."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kabis.chain import leaves
from tests.kabis.session.console import Console, opened
from veristream.kabis.channels.interfaces import Channels
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.protocol.batch import Batch, Stream, build_batch
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.wire.connection import RequestError
from veristream.kabis.wire.handshake import Role

pytestmark = pytest.mark.xdist_group("kabis-flooded")

WAITING_MAX = 12


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Console]:
    """A cluster whose storage parties keep only a few batches that are not admitted."""
    with opened(tmp_path / "cluster") as console:
        console.do("up", "--detach")
        console.do("down")
        settings = f"[waiting]\nproducer_batches = {WAITING_MAX}\n"
        (console.data / "kabis.toml").write_text(settings, encoding="utf-8")
        console.do("up", "--detach")
        console.do("topic", "create", "orders")
        console.do("client", "add", "mallory")
        yield console


def disk_bytes(run: Console) -> int:
    return sum(path.stat().st_size for path in run.data.glob("storage-*/log/*.segment"))


def test_a_client_fills_no_disk_and_others_are_served(run: Console) -> None:
    access = Access(ClusterFolder(run.data))
    author = access.author("mallory")

    def batch(topic: str, number: int) -> Batch:
        stream = Stream(author.chain_id, topic, 0, "mallory", 0)
        return build_batch(stream, number, ZERO_DIGEST, leaves(b"x" * 10_000), author.signer)

    async def flood(channels: Channels, topic: str, count: int) -> tuple[int, str]:
        """Sends batches to one party; returns how many it stored, and why it refused the last."""
        party, stored, why = channels.storage[0], 0, ""
        for number in range(count):
            try:
                made = batch(topic, number)
                await party.store(made.encode(), made.digest())
                stored += 1
            except RequestError as error:
                why = str(error)
        return stored, why

    async def attack() -> None:
        channels = await access.connect("mallory", Role.PRODUCER, 60.0)()
        try:
            before = disk_bytes(run)
            stored, why = await flood(channels, "nowhere", 5)
            assert stored == 0 and "there is no partition nowhere-0 up to block" in why
            assert disk_bytes(run) == before
            stored, why = await flood(channels, "orders", WAITING_MAX + 5)
            assert stored == WAITING_MAX and "already wait for their admission" in why
        finally:
            await channels.close()

    asyncio.run(asyncio.wait_for(attack(), 120))
    assert run.do("produce", "orders", given="honest\n").output.startswith("1 event acknowledged")
    run.do("client", "add", "alice")
    assert run.do("produce", "orders", "--as", "alice", given="late\n").output.startswith("1 event ")
