"""A client of CometBFT's nodes: blocks are put together and certified, and no lie gets through."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from tests.kabis.chain import Chain
from tests.kabis.cometbft.chain import GENESIS, CometChain, FakeNode, Lie, make_commit
from veristream.kabis.channels.failures import LyingPartyError
from veristream.kabis.cometbft.application import Places
from veristream.kabis.cometbft.rpc import Call, NodeError
from veristream.kabis.ledger.follower import Follower
from veristream.kabis.protocol.actions import SetTopic
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.outcomes import Already, Done, Refused

HEIGHT = 12


def topic(chain: Chain, number: int) -> bytes:
    return chain.act("admin", SetTopic(f"topic-{number}", 1, validated=True)).encode()


@pytest.fixture
def comet() -> CometChain:
    """A founded chain with some blocks of ours, and as many empty ones between them."""
    comet, chain = CometChain(), Chain()
    comet.decide(GENESIS.encode())
    for number in range(HEIGHT):
        comet.decide(topic(chain, number))
    return comet


def read(comet: CometChain, lies: dict[int, Lie] | None = None) -> list[CertifiedBlock]:
    async def work() -> list[CertifiedBlock]:
        return list(await comet.ordering(lies or {}).read(1, HEIGHT + 5))

    return asyncio.run(work())


def test_blocks_are_followed_to_the_ledger_of_the_nodes(comet: CometChain) -> None:
    follower = Follower(GENESIS)
    blocks = read(comet)
    for certified in blocks:
        assert follower.follow(certified, 0) is not None
    ledger = comet.application.ledger
    assert ledger is not None
    assert len(blocks) == follower.ledger.height == HEIGHT
    assert follower.ledger.state_hash() == ledger.state_hash()
    assert {certified.certificate.voters for certified in blocks} == {(0, 1, 2)}


def test_a_block_counts_when_the_next_is_decided(comet: CometChain) -> None:
    comet._decide((topic(Chain(numbers={"admin": HEIGHT}), HEIGHT),))
    assert len(read(comet)) == HEIGHT
    comet._decide(())
    assert len(read(comet)) == HEIGHT + 1


def altered(method: str, change: Callable[[Any], object]) -> Lie:
    """Answers to one method are changed, and others are not."""

    def lie(call: Call, result: Any) -> Any:
        if call.method == method and dict(call.parameters).get("path") in (None, "/places"):
            result = deepcopy(result)
            change(result)
        return result

    return lie


def change_places(change: Callable[[Places], Places]) -> Callable[[Any], None]:
    def work(result: Any) -> None:
        places = change(Places.decode(b64decode(result["response"]["value"])))
        result["response"]["value"] = b64encode(places.encode()).decode()

    return work


def with_time(places: Places) -> Places:
    headers = [replace(each.header, time_ms=each.header.time_ms + 1) for each in places.places]
    return replace(
        places,
        places=tuple(
            replace(each, header=header) for each, header in zip(places.places, headers, strict=True)
        ),
    )


def two_votes(result: Any) -> None:
    signed = result["signed_header"]
    signed["commit"] = make_commit(signed["header"], ("v0", "v1"))


def other_anchor(result: Any) -> None:
    """A header that names another block, with the votes of one validator alone: it has no other keys."""
    signed = result["signed_header"]
    signed["header"]["app_hash"] = "00" * 40
    signed["commit"] = make_commit(signed["header"], ("v0",))


LIES: dict[str, Lie] = {
    "other transactions": altered("block", lambda result: result["block"]["data"].update(txs=["anVuaw=="])),
    "no transactions": altered("block", lambda result: result["block"]["data"].update(txs=[])),
    "transactions that are none": altered("block", lambda result: result["block"]["data"].update(txs=7)),
    "another time": altered("abci_query", change_places(with_time)),
    "blocks from later on": altered(
        "abci_query", change_places(lambda places: replace(places, places=places.places[1:]))
    ),
    "two votes": altered("commit", two_votes),
    "another block": altered("commit", other_anchor),
    "no header": altered("commit", lambda result: result.clear()),
    "no place at all": altered("abci_query", lambda result: result["response"].update(value="AA==")),
    "a refusal": altered("abci_query", lambda result: result["response"].update(code=1, log="no")),
}


@pytest.mark.parametrize("name", LIES)
def test_whoever_lies_is_left_for_another(comet: CometChain, name: str) -> None:
    honest = [certified.block for certified in read(comet)]
    assert [certified.block for certified in read(comet, {0: LIES[name]})] == honest
    three = dict.fromkeys(range(3), LIES[name])
    assert [certified.block for certified in read(comet, three)] == honest


@pytest.mark.parametrize("name", LIES)
def test_if_all_lie_there_is_nothing(comet: CometChain, name: str) -> None:
    assert read(comet, dict.fromkeys(range(4), LIES[name])) == []


def test_one_call_asks_for_no_more_than_a_node_takes(comet: CometChain) -> None:
    async def work() -> list[str]:
        ordering = comet.ordering({})
        await ordering.read(1, HEIGHT)
        [node, *_] = ordering._nodes
        assert isinstance(node, FakeNode)
        return node.asked

    asked = asyncio.run(work())
    assert asked == [*["abci_query", *["block", "commit"] * 5] * 2, "abci_query", *["block", "commit"] * 2]


def test_what_becomes_of_a_transaction(comet: CometChain) -> None:
    async def work() -> None:
        ordering = comet.ordering({})
        known = comet.transactions[-2][0]
        fresh = topic(Chain(numbers={"admin": HEIGHT}), HEIGHT)
        assert await ordering.submit(0, known) == Already()
        assert await ordering.submit(1, fresh) == Done()
        assert await ordering.submit(1, fresh) == Done(), "the node has it, and says what it expects"
        assert isinstance(await ordering.submit(2, b"junk"), Refused)
        assert comet.waiting == [fresh]
        assert (await ordering.status()).height == HEIGHT
        assert (await ordering.evidence_of(3)).accused == ()

    asyncio.run(work())


def test_a_node_whose_answer_is_none_is_a_liar(comet: CometChain) -> None:
    async def work() -> None:
        ordering = comet.ordering({0: lambda call, result: {"code": 0, "data": "00"}})
        await ordering.submit(0, b"junk")

    with pytest.raises(LyingPartyError):
        asyncio.run(work())


def test_before_the_founding_a_node_says_so() -> None:
    with pytest.raises(NodeError, match="no genesis yet"):
        asyncio.run(CometChain().ordering({}).status())
