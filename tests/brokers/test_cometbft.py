"""The validation channel on a real CometBFT chain of four validators."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.brokers.comet import PATIENCE_S, admin_of, create_topics, make_genesis, reach, running, visit
from veristream.brokers.cometbft import CometNetwork
from veristream.kabis.client.administration import Replica
from veristream.kabis.cometbft.client import CometOrdering
from veristream.kabis.cometbft.rpc import Call
from veristream.kabis.protocol.actions import SetTopic
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.outcomes import Already, Done, Reason, Refused
from veristream.kabis.protocol.receipts import CertificateError
from veristream.kabis.protocol.transactions import sign_action

pytestmark = [pytest.mark.brokers, pytest.mark.xdist_group("cometbft")]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CometNetwork]:
    with running(tmp_path_factory.mktemp("cometbft")) as network:
        yield network


@pytest.fixture(scope="module")
def genesis(network: CometNetwork) -> Genesis:
    return make_genesis(network)


async def height_of(replica: Replica) -> int:
    return replica.ledger.height


def test_a_transaction_is_submitted_to_one_node_and_followed_from_all(genesis: Genesis) -> None:
    async def work() -> None:
        ordering = CometOrdering(genesis)
        before = (await reach(ordering, 0, 0)).height
        encoded = sign_action(admin_of(genesis), before + 1, SetTopic("first", 1, validated=True)).encode()
        assert await ordering.submit(0, encoded) == Done()
        async for certified in ordering.follow(before + 1):
            assert certified.block.header.height == before + 1
            assert certified.block.transactions == (encoded,)
            assert len(certified.certificate.voters) >= 3
            certified.certificate.verify(genesis.chain_id, genesis.validator_keys)
            with pytest.raises(CertificateError):
                certified.certificate.verify(genesis.chain_id, genesis.validator_keys[::-1])
            break
        for validator in (0, 1):
            await reach(ordering, validator, before + 1)
            assert await ordering.submit(validator, encoded) == Already()
        assert isinstance(await ordering.submit(2, b"junk"), Refused)
        (again,) = await ordering.read(before + 1, before + 9)
        assert again.block == certified.block  # nodes may have different votes for it
        assert CertifiedBlock.decode(certified.encode()) == certified
        assert await ordering.read(before + 2, before + 9) == []

    asyncio.run(asyncio.wait_for(work(), PATIENCE_S))


def test_what_the_ledger_refuses_is_in_no_block(genesis: Genesis) -> None:
    async def work(replica: Replica) -> tuple[int, int]:
        before = replica.ledger.height
        account = replica.ledger.account("admin")
        assert account is not None
        wrong = sign_action(admin_of(genesis), account.number + 1, SetTopic("no name!", 1, validated=True))
        for validator in range(4):
            outcome = await replica.channels.ordering.submit(validator, wrong.encode())
            assert isinstance(outcome, Refused)
            assert outcome.reason is Reason.BAD_NAME
        await create_topics(replica, ["after-the-wrong-one"])
        return before, replica.ledger.height

    [(before, after)] = visit(genesis, work)
    assert after == before + 1


def test_two_clients_agree_on_the_ledger(genesis: Genesis) -> None:
    names = [f"agreed-{number}" for number in range(10)]

    async def write(replica: Replica) -> tuple[bytes, bytes]:
        await create_topics(replica, names)
        return replica.ledger.last_id, replica.ledger.state_hash()

    async def watch(replica: Replica) -> tuple[bytes, bytes]:
        while replica.ledger.topic(names[-1]) is None:
            await replica.follow(replica.ledger.height + 1)
        return replica.ledger.last_id, replica.ledger.state_hash()

    written, watched = visit(genesis, write, watch)
    assert written == watched
    [late] = visit(genesis, height_of)
    assert late >= len(names)


def last_ids(genesis: Genesis, height: int) -> set[bytes]:
    """Waits until the nodes have reached the height; returns the ids of their last blocks."""

    async def work() -> set[bytes]:
        ordering = CometOrdering(genesis)
        return {(await reach(ordering, validator, height)).block_id for validator in range(4)}

    return asyncio.run(asyncio.wait_for(work(), PATIENCE_S))


@pytest.mark.parametrize("killed", [False, True])
def test_a_validator_that_is_gone_is_missed_by_nobody_and_catches_up(
    network: CometNetwork, genesis: Genesis, killed: bool
) -> None:
    topics = [f"gone-{killed}-{number}" for number in range(9)]

    async def work(replica: Replica) -> int:
        await create_topics(replica, topics[:3])
        await asyncio.to_thread(network.kill if killed else lambda name: network.stop([name]), "cometbft-2")
        await create_topics(replica, topics[3:6])
        await asyncio.to_thread(network.start, ["cometbft-2"])
        await create_topics(replica, topics[6:])
        return replica.ledger.height

    [height] = visit(genesis, work)
    assert len(last_ids(genesis, height)) == 1


def test_nothing_is_lost_when_all_are_killed(network: CometNetwork, genesis: Genesis) -> None:
    async def write(replica: Replica) -> tuple[int, bytes]:
        await create_topics(replica, ["before-the-end"])
        return replica.ledger.height, replica.ledger.state_hash()

    async def look(replica: Replica) -> tuple[int, bytes]:
        return replica.ledger.height, replica.ledger.state_hash()

    [written] = visit(genesis, write)
    for name in network.names():
        network.kill(name)
    network.start()
    assert visit(genesis, look) == [written]
    assert len(last_ids(genesis, written[0])) == 1


@dataclass
class Liar:
    """A node whose answers are changed in transit."""

    honest: Any
    told: list[str] = field(default_factory=list)

    async def call(self, call: Call, timeout_s: float) -> Any:
        return (await self.call_all((call,), timeout_s))[0]

    async def call_all(self, calls: Sequence[Call], timeout_s: float) -> list[Any]:
        results = await self.honest.call_all(calls, timeout_s)
        for call, result in zip(calls, results, strict=True):
            self.told.append(call.method)
            match call.method:
                case "block":
                    result["block"]["data"]["txs"] = ["anVuaw=="]
        return list(results)


def test_a_node_that_alters_transactions_is_left_for_another(genesis: Genesis) -> None:
    async def work() -> None:
        honest, ordering = CometOrdering(genesis), CometOrdering(genesis)
        height = (await honest.status()).height
        liar = Liar(ordering._nodes[2])
        ordering._nodes[2] = liar  # type: ignore[call-overload]
        while "block" not in liar.told:  # a slow node is abandoned before it has lied
            ordering._preferred = 2
            found = await ordering.read(1, height)
        assert ordering._preferred != 2
        assert [each.block for each in found] == [each.block for each in await honest.read(1, height)]
        assert len(found) == height > 0

    asyncio.run(asyncio.wait_for(work(), PATIENCE_S))


def test_a_network_is_as_it_was_set_up(network: CometNetwork, tmp_path: Path) -> None:
    before = [network.address(name) for name in network.names()]
    network.create(4)
    assert [network.address(name) for name in network.names()] == before
    assert network.start() == []
