"""A restored validator rejoins although the others have pruned the blocks that it lacks."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from tests.kabis.ordering.test_snapshots import BLOCKS, GENESIS, LENGTH, forged, keeper
from veristream.kabis.cluster.rejoining import is_restored, mark_restored, rejoin
from veristream.kabis.ledger.snapshot import Manifest
from veristream.kabis.log.disk.log import Log
from veristream.kabis.ordering.asking import Validators
from veristream.kabis.ordering.snapshots import SnapshotFolder
from veristream.kabis.ordering.store import BlockStore
from veristream.kabis.protocol.keys import verify
from veristream.kabis.wire.endpoints import RequestError


@dataclass(frozen=True, slots=True)
class Told:
    height: int


class Pruned(Validators):
    """Validators without blocks below 15; the first one forges its snapshot, which is the newest."""

    async def submit(self, *_: object) -> None:  # type: ignore[override]
        raise AssertionError

    async def evidence_of(self, validator: int) -> None:  # type: ignore[override]
        raise AssertionError

    async def status_of(self, validator: int) -> Told:
        return Told(LENGTH - 2)

    async def _read_from(self, validator: int, first: int, last: int, wait_ms: int):  # type: ignore[override, no-untyped-def]
        if first < 15:
            raise RequestError("pruned below block 15; take a snapshot")
        for block in BLOCKS[first - 1 : last]:
            yield block

    async def _manifest_of(self, validator: int) -> Manifest:
        return (keeper(14) if validator else forged()).manifest

    async def _chunk_of(self, validator: int, height: int, number: int) -> bytes:
        return (keeper(14) if validator else forged()).chunks[number]

    def _is_reached(self, validator: int) -> bool:
        return True

    async def close(self) -> None:
        pass


def test_it_takes_a_snapshot_and_the_blocks_after_it(tmp_path: Path) -> None:
    async def test(blocks: BlockStore) -> None:
        async with asyncio.timeout(30):
            await rejoin(tmp_path, blocks, Pruned(GENESIS), GENESIS)

    mark_restored(tmp_path)
    with Log(tmp_path / "blocks") as log:
        for certified in BLOCKS[:3]:
            log.append(certified.encode())
        blocks = BlockStore(log, SnapshotFolder(tmp_path / "snapshots"))
        asyncio.run(test(blocks))
        assert not is_restored(tmp_path)
        assert (blocks.first, blocks.height) == (15, LENGTH)
        assert blocks.open(GENESIS, verify).last_id == BLOCKS[-1].block.block_id()
