"""A real chain whose validators prune: restarts, a validator that joins late, and clients that open."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from tests.kabis.ordering.cluster import (
    Cluster,
    Reader,
    make_batches,
    make_topic,
    run,
    statuses,
)
from veristream.kabis.channels.interfaces import Channels
from veristream.kabis.client.administration import Replica
from veristream.kabis.storage.chain import ChainView, follow_chain
from veristream.kabis.wire.endpoints import RequestError

SETTINGS = "[snapshots]\nevery_blocks = 5\nkeep_blocks = 5\nsegment_bytes = 65536\n"
BATCHES = 300
TOGETHER = 15


@pytest.mark.long
def test_who_comes_late_to_a_pruned_chain_joins_by_snapshot(tmp_path: Path) -> None:
    settings = tmp_path / "kabis.toml"
    settings.write_text(SETTINGS, encoding="utf-8")
    more = ("--settings", str(settings))

    async def test(cluster: Cluster) -> None:
        await cluster.ready(0, 1, 2)
        client = cluster.client()
        reader = Reader(cluster.genesis)
        transactions = (make_topic(), *make_batches("alice", BATCHES))
        for count, transaction in enumerate(transactions, start=1):
            await client.submit(0, transaction)
            if count % TOGETHER == 1 or count == len(transactions):
                await reader.follow_until(client, lambda: len(reader.transactions) >= count)  # noqa: B023
        height = reader.ledger.height
        await statuses(client, (0, 1, 2), height)
        with pytest.raises(RequestError, match="pruned below block"):
            await anext(client._read_from(0, 1, 1, 0))
        for index in (0, 1, 2):
            assert cluster.end(index, signal.SIGKILL) == -signal.SIGKILL
        cluster.start(more=more)  # nobody has early blocks in memory any more
        await cluster.ready()
        found = await statuses(client, (0, 1, 2, 3), height)
        assert {each.state for each in found} == {reader.ledger.state_hash()}
        assert "took a snapshot" in cluster.errors(3).read_text(encoding="utf-8")
        replica = Replica(cluster.genesis, Channels((), client))
        await replica.follow_to_end()
        assert replica.ledger.last_id == reader.ledger.last_id
        assert replica.ledger.cursor("alice", "orders", 0).next_sequence == BATCHES
        view = ChainView(cluster.genesis)
        following = asyncio.ensure_future(follow_chain(view, client, 0.1))
        while view.height < height:
            await asyncio.sleep(0.05)
        following.cancel()
        await client.close()

    with Cluster(tmp_path) as cluster:
        cluster.start(0, 1, 2, more=more)
        run(lambda: test(cluster))
