"""A validator that lost the records of its votes does not start, and rejoins only on request."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.kabis.ordering.cluster import Cluster, Reader, make_batches, make_topic, run, statuses
from veristream.errors import EnvironmentFailure
from veristream.kabis.cluster.rejoining import mark_restored, note_votes, require_votes
from veristream.kabis.log.disk.log import Log
from veristream.kabis.ordering.client import OrderingClient


def make_logs(folder: Path) -> None:
    require_votes(folder)
    for name in ("blocks", "records"):
        with Log(folder / name):
            pass
    note_votes(folder)
    require_votes(folder)


@pytest.mark.parametrize("lost", [("records",), ("records", "blocks")])
def test_without_its_votes_a_validator_does_not_start(tmp_path: Path, lost: tuple[str, ...]) -> None:
    make_logs(tmp_path)
    for name in lost:
        shutil.rmtree(tmp_path / name)
    for _ in range(2):
        with pytest.raises(EnvironmentFailure, match="votes of this validator are gone") as caught:
            require_votes(tmp_path)
        assert "--rejoin" in (caught.value.hint or "")
    mark_restored(tmp_path)
    require_votes(tmp_path)


def test_lost_votes_are_noticed_by_the_blocks_of_an_older_version(
    tmp_path: Path,
) -> None:
    make_logs(tmp_path)
    (tmp_path / "voted").unlink()
    require_votes(tmp_path)
    for path in (tmp_path / "records").glob("*.segment"):
        path.unlink()
    with pytest.raises(EnvironmentFailure, match="gone"):
        require_votes(tmp_path)


def test_without_its_blocks_a_validator_starts(tmp_path: Path) -> None:
    make_logs(tmp_path)
    shutil.rmtree(tmp_path / "blocks")
    require_votes(tmp_path)


def test_a_validator_that_lost_its_votes_rejoins_above_them(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.start()
        batches = make_batches("alice", 2_000)

        async def order(client: OrderingClient, reader: Reader, transactions: list[bytes]) -> None:
            for each in transactions:
                for index in range(2):
                    await client.submit(index, each)
                await reader.follow_until(client, lambda each=each: each in reader.transactions)

        async def test() -> None:
            await cluster.ready()
            client, reader = cluster.client(), Reader(cluster.genesis)
            await order(client, reader, [make_topic(), *batches[:3]])
            await statuses(client, [3], reader.ledger.height)
            assert cluster.end(3, signal.SIGTERM) == 0
            shutil.rmtree(tmp_path / "v3" / "records")
            ended = subprocess.run(cluster.command(3), capture_output=True, text=True, timeout=60)
            assert ended.returncode == 3 and "votes of this validator are gone" in ended.stderr
            assert "Traceback" not in ended.stderr
            cluster.start(3, more=["--rejoin"])
            ready = tmp_path / "v3" / "ready"
            for each in batches[3:]:  # an idle chain makes no blocks, and it would wait for ever
                if ready.exists() and "address" in ready.read_text(encoding="utf-8"):
                    break
                assert cluster.processes[3].poll() is None, cluster.errors(3).read_text(encoding="utf-8")
                await order(client, reader, [each])
                await asyncio.sleep(0.02)
            else:
                pytest.fail("it never rejoins")
            await statuses(client, [3], reader.ledger.height)
            assert not reader.ledger.accusations()
            await client.close()

        run(test)
        assert cluster.end(3, signal.SIGTERM) == 0
