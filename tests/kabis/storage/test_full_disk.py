"""A storage party on a full disk: it refuses batches, answers everything else, and goes on with room."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from tests.kabis.storage.chain import ALICE, GENESIS, STORES, batch
from veristream.kabis.log.disk.log import Log
from veristream.kabis.protocol.batch import Batch
from veristream.kabis.storage.core import StorageCore
from veristream.kabis.storage.messages import Operation, found
from veristream.kabis.storage.party import StorageParty
from veristream.kabis.wire.connection import Attached, RequestError
from veristream.kabis.wire.handshake import Peer, Role
from veristream_testing.limits import file_size_limit

PEER = Peer(Role.PRODUCER, "alice", ALICE.public)


async def store(party: StorageParty, one: Batch) -> bytes | Attached:
    request = Attached(bytes((Operation.STORE,)) + one.digest(), one.encode())
    return await party.answer_attached(PEER, request)


async def fetch(party: StorageParty, one: Batch) -> bytes | Attached:
    return await party.answer(PEER, bytes((Operation.FETCH_DIGEST,)) + one.digest())


def test_it_refuses_while_it_is_full_serves_reads_and_resumes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    one, two = batch(0), batch(2, [b"x" * 5000])

    async def test(log: Log) -> None:
        party = StorageParty(StorageCore(GENESIS, "s0", STORES[0], log), log, 0.001)
        committer = asyncio.ensure_future(party.committer.run())
        await store(party, one)
        with file_size_limit(log.size_bytes + 100):
            for _ in range(3):
                with pytest.raises(RequestError, match="no room, try again later"):
                    await store(party, two)
                assert await fetch(party, one) == Attached(found(b""), one.encode())
        await store(party, two)
        assert await fetch(party, two) == Attached(found(b""), two.encode())
        assert not committer.done()
        committer.cancel()
        await asyncio.gather(committer, return_exceptions=True)

    with Log(tmp_path) as log:
        asyncio.run(test(log))
    told = [record.message for record in caplog.records]
    assert len([line for line in told if "until there is room" in line]) == 1, "said once, not each time"
    assert told[-1] == "there is room again"
