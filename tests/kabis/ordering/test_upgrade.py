"""A rolling upgrade under load: validators of an older version are replaced one by one; nothing is lost.

The older version is a commit of this repository, so its history is needed: `git fetch --unshallow`.
"""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kabis.chain import VALIDATORS
from tests.kabis.ordering.cluster import (
    Cluster,
    Reader,
    make_batches,
    make_topic,
    run,
    statuses,
    submit_widely,
)
from veristream.kabis.client.producer.window import find_refusal
from veristream.kabis.ordering.client import OrderingClient
from veristream.kabis.protocol.genesis import to_json

pytestmark = pytest.mark.long

OLDER = "56f7901"
ROOT = Path(__file__).parents[3]
BATCHES_PER_STEP = 5


def unpack_older(folder: Path) -> Path:
    """Unpacks the sources of the older version; returns the folder to import from."""
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", OLDER, "src/veristream"], capture_output=True, check=False
    )
    if archive.returncode != 0:
        pytest.skip(f"the history of this clone lacks {OLDER}: {archive.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")
    return folder / "src"


def importing(sources: Path) -> dict[str, str]:
    """The environment of a process that imports these sources."""
    return {**os.environ, "PYTHONPATH": str(sources)}


def start_older(cluster: Cluster, index: int, sources: Path) -> None:
    """Starts a validator with the code of the older version."""
    (cluster.folder / VALIDATORS[index] / "ready").unlink(missing_ok=True)
    with cluster.errors(index).open("ab") as errors:
        cluster.processes[index] = subprocess.Popen(
            cluster.command(index), stderr=errors, cwd=sources, env=importing(sources)
        )


def is_older(sources: Path) -> bool:
    """Whether such a process imports the older version."""
    show = [sys.executable, "-c", "import veristream.kabis as kabis; print(kabis.__file__)"]
    told = subprocess.run(
        show, capture_output=True, text=True, check=True, cwd=sources, env=importing(sources)
    )
    return told.stdout.startswith(str(sources))


def use_version_1(cluster: Cluster) -> None:
    """Lets the chain begin with the protocol version that the older validators know."""
    cluster.genesis = replace(cluster.genesis, version=1)
    (cluster.folder / "genesis.json").write_text(to_json(cluster.genesis), encoding="utf-8")


class Load:
    """A client that submits batches one after the other for as long as it is not stopped."""

    def __init__(self, client: OrderingClient, reader: Reader) -> None:
        self.client, self.reader = client, reader
        self.batches = make_batches("alice", 3_000)
        self.decided = 0
        self.stopped = False

    async def order(self, encoded: bytes) -> None:
        while True:
            outcomes = await submit_widely(self.client, encoded)
            kept = [each for each in outcomes if not find_refusal(each)]
            if len(kept) >= 2:
                break
            await asyncio.sleep(0.05)
        await self.reader.follow_until(self.client, lambda: encoded in self.reader.transactions)

    async def go_on(self) -> None:
        for encoded in self.batches:
            if self.stopped:
                return
            await self.order(encoded)
            self.decided += 1

    async def wait_for_more(self) -> None:
        wanted = self.decided + BATCHES_PER_STEP
        while self.decided < wanted:
            await asyncio.sleep(0.02)


def test_validators_are_upgraded_one_by_one_under_load(tmp_path: Path) -> None:
    sources = unpack_older(tmp_path / "older")
    assert is_older(sources)
    (tmp_path / "cluster").mkdir()
    with Cluster(tmp_path / "cluster") as cluster:
        use_version_1(cluster)

        async def test() -> None:
            for index in range(len(VALIDATORS)):
                start_older(cluster, index, sources)
            await cluster.ready()
            load = Load(cluster.client(), Reader(cluster.genesis))
            await load.order(make_topic())
            working = asyncio.create_task(load.go_on())
            await load.wait_for_more()
            for index in range(len(VALIDATORS)):
                assert cluster.end(index, signal.SIGTERM) == 0
                await load.wait_for_more()
                cluster.start(index)
                await cluster.ready(index)
                await load.wait_for_more()
            load.stopped = True
            await working
            reader = load.reader
            assert reader.transactions == [make_topic(), *load.batches[: load.decided]]
            found = await statuses(load.client, range(len(VALIDATORS)), reader.ledger.height)
            assert {(each.height, each.block_id, each.state) for each in found} == {
                (reader.ledger.height, reader.ledger.last_id, reader.ledger.state_hash())
            }
            assert not reader.ledger.accusations()
            await load.client.close()

        run(test)
        for index in range(len(VALIDATORS)):
            told = cluster.errors(index).read_text(encoding="utf-8")
            assert "Traceback" not in told and "invalid" not in told, told
