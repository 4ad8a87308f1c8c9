"""A validator on a full disk ends with the reason, and continues where it was when there is room again."""

from __future__ import annotations

import resource
import signal
import sys
from pathlib import Path

import pytest

from tests.kabis.ordering.cluster import Cluster, Reader, make_batches, make_topic, run, statuses

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of another process are Linux's")


def test_a_full_disk_ends_a_validator_cleanly_and_nothing_is_lost(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.start()
        batches = make_batches("alice", 200)

        async def test() -> None:
            await cluster.ready()
            client, reader = cluster.client(), Reader(cluster.genesis)
            transactions = iter([make_topic(), *batches])

            async def order() -> None:
                each = next(transactions)
                for index in range(2):
                    await client.submit(index, each)
                await reader.follow_until(client, lambda: each in reader.transactions)

            await order()
            await order()
            largest = max(path.stat().st_size for path in (tmp_path / "v3" / "records").glob("*.segment"))
            limit = largest + 1_000
            full = cluster.processes[3]
            resource.prlimit(full.pid, resource.RLIMIT_FSIZE, (limit, limit))
            while full.poll() is None:
                await order()
            assert full.wait() == 3
            told = cluster.errors(3).read_text(encoding="utf-8")
            assert "no room to write" in told and "Traceback" not in told
            cluster.start(3)
            await cluster.ready(3)
            await order()
            await statuses(client, [3], reader.ledger.height)
            assert not reader.ledger.accusations()
            await client.close()

        run(test)
        assert cluster.end(3, signal.SIGTERM) == 0
