"""A CometBFT validator with a faulty application: the others vote for nothing that breaks a rule."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.brokers import junk_application
from tests.brokers.comet import create_topics, make_genesis, running, visit
from veristream.brokers.cometbft import CometNetwork
from veristream.kabis.client.administration import Replica
from veristream.kabis.cometbft import rpc
from veristream.kabis.cometbft.addresses import parse_address
from veristream.kabis.cometbft.rpc import Call, Node
from veristream.kabis.protocol.blocks import BlockHeader

pytestmark = [pytest.mark.brokers, pytest.mark.xdist_group("cometbft")]

NAMES = [f"topic-{number}" for number in range(12)]


class WithOneFaulty(CometNetwork):
    """The first validator's application proposes junk."""

    def command(self, name: str) -> Sequence[str]:
        command = list(super().command(name))
        if name == "cometbft-1":
            at = command.index("-m")
            command[at : at + 2] = [junk_application.__file__]
        return command


def test_junk_that_a_validator_proposes_is_not_voted_for(tmp_path: Path) -> None:
    async def work(replica: Replica) -> tuple[list[BlockHeader], list[int]]:
        await create_topics(replica, NAMES)
        blocks = await replica.channels.ordering.read(1, replica.ledger.height)
        return [certified.block.header for certified in blocks], await read_rounds(
            network.address("cometbft-2")
        )

    with running(tmp_path, WithOneFaulty) as network:
        [(headers, rounds)] = visit(make_genesis(network), work)
    assert [header.count for header in headers] == [1] * len(NAMES)
    assert "validator-1" not in {header.proposer for header in headers}
    assert max(rounds) > 0, "the faulty validator never proposed, so that nothing was tried"


async def read_rounds(address: str) -> list[int]:
    """Returns the round in which each CometBFT block was decided: 0 unless a proposal was rejected."""
    node = Node(parse_address(address))
    status = await node.call(Call("status"), 5.0)
    tip = rpc.read_integer(status, "sync_info", "latest_block_height")
    commits = [await node.call(Call("commit", (("height", str(each)),)), 5.0) for each in range(1, tip + 1)]
    return [rpc.read_integer(commit, "signed_header", "commit", "round") for commit in commits]
