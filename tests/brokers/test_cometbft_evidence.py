"""A validator that signed two conflicting votes: CometBFT records evidence, and Kabis shows it."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.brokers.comet import create_topics, make_genesis, reach_all, running, visit
from veristream.brokers.cometbft import CometNetwork
from veristream.kabis.client.administration import Replica
from veristream.kabis.cometbft.application import address_of
from veristream.kabis.cometbft.client import CometOrdering
from veristream.kabis.cometbft.headers import read_time
from veristream.kabis.cometbft.rpc import Call, Node
from veristream.kabis.ordering.requests import Evidence
from veristream.kabis.protocol.cometbft_certificate import Votes
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import SecretKey, make_key

pytestmark = [pytest.mark.brokers, pytest.mark.xdist_group("cometbft")]


def stolen_key(network: CometNetwork, name: str) -> SecretKey:
    """Returns the key with which a validator votes; with it, the test can vote twice."""
    path = network.folder / name / "config" / "priv_validator_key.json"
    return make_key(b64decode(json.loads(path.read_text())["priv_key"]["value"])[:32])


async def read_header(node: Node, height: int) -> dict[str, Any]:
    answer = await node.call(Call("commit", (("height", str(height)),)), 5.0)
    header: dict[str, Any] = answer["signed_header"]["header"]
    return header


def make_vote(key: SecretKey, header: dict[str, Any], block: bytes) -> dict[str, Any]:
    """Returns a precommit for a block that never existed, signed as CometBFT does."""
    time_ns = read_time(header["time"])
    votes = Votes(int(header["height"]), 0, block, 1, block, ())
    return {
        "type": 2,
        "height": header["height"],
        "round": 0,
        "block_id": {"hash": block.hex().upper(), "parts": {"total": 1, "hash": block.hex().upper()}},
        "timestamp": header["time"],
        "validator_address": address_of(key.public).hex().upper(),
        "validator_index": 0,
        "signature": b64encode(key.sign(votes.message(header["chain_id"], time_ns))).decode(),
    }


async def convict(node: Node, key: SecretKey) -> None:
    """Submits the two votes to a node, as anybody can who has seen both."""
    header = await read_header(node, 2)
    evidence = {
        "type": "tendermint/DuplicateVoteEvidence",
        "value": {
            "vote_a": make_vote(key, header, b"\x01" * 32),
            "vote_b": make_vote(key, header, b"\x02" * 32),
            "TotalVotingPower": "4",
            "ValidatorPower": "1",
            "Timestamp": header["time"],
        },
    }
    await node.call(Call("broadcast_evidence", (("evidence", evidence),)), 5.0)


def test_two_votes_of_one_validator_are_evidence_for_everybody(tmp_path: Path) -> None:
    with running(tmp_path) as network:
        genesis: Genesis = make_genesis(network)
        key = stolen_key(network, "cometbft-3")

        async def work(replica: Replica) -> list[Evidence]:
            ordering = replica.channels.ordering
            assert isinstance(ordering, CometOrdering)
            await create_topics(replica, ["before"])
            await reach_all(replica)
            assert [await ordering.evidence_of(number) for number in range(4)] == [Evidence((), 0)] * 4
            await convict(ordering._nodes[0], key)
            names = (f"after-{number}" for number in range(50))
            while not (await ordering.evidence_of(0)).accused:
                await create_topics(replica, [next(names)])
            await create_topics(replica, [next(names)])  # a node that has this later block has the evidence
            await reach_all(replica)
            return [await ordering.evidence_of(number) for number in range(4)]

        [said] = visit(genesis, work)
    assert said == [said[0]] * 4
    [accused] = said[0].accused
    assert (accused.role, accused.name) == ("validator", "validator-3")
    assert replace(said[0], accused=()) == Evidence((), 1)
