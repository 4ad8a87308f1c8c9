"""What a validator's service makes of requests, and when."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kabis.ordering.test_node import ALICE, GuardedRecords, run_alone
from veristream.kabis.ordering.node import Node
from veristream.kabis.ordering.requests import Operation, ReadChunk
from veristream.kabis.ordering.service import Service
from veristream.kabis.wire.connection import Later, RequestError


@pytest.mark.parametrize(
    "request_bytes",
    [bytes((Operation.MANIFEST,)), bytes((Operation.CHUNK,)) + ReadChunk(5, 0).encode()],
    ids=["manifest", "chunk"],
)
def test_who_reads_a_snapshot_waits_for_its_turn(tmp_path: Path, request_bytes: bytes) -> None:
    """A chunk has a megabyte, so its answer is made as one with blocks: one after the other."""

    async def test(node: Node, _records: GuardedRecords) -> None:
        answer = await Service(node).answer(ALICE, request_bytes)
        assert isinstance(answer, Later)
        with pytest.raises(RequestError, match="there is no"):
            answer.make()

    run_alone(tmp_path, test)
