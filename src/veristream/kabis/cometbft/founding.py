"""Existing CometBFT nodes as the validators of a chain of ours: who they are, and our genesis as the first
transaction that they order.

Chain id and validators' keys are CometBFT's own; a genesis with others is not theirs. Whoever founds first
has the chain, so that a second genesis is refused by everybody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.channels.failures import FAILURES, LyingPartyError
from veristream.kabis.cometbft import rpc
from veristream.kabis.cometbft.addresses import SCHEME, parse_address
from veristream.kabis.cometbft.client import CometOrdering
from veristream.kabis.cometbft.rpc import Call, Node, NodeError
from veristream.kabis.protocol.codec import PUBLIC_KEY_BYTES
from veristream.kabis.protocol.genesis import Genesis, Party

ANSWER_S = 5.0
FOUND_PATIENCE_S = 30.0
AGAIN_S = 0.2
_ED25519 = "tendermint/PubKeyEd25519"
_APPLICATION = (
    "each node's proxy_app must be `python -m veristream.kabis.cometbft.process --listen HOST:PORT`;"
    " `veristream broker up cometbft` sets that up"
)


@dataclass(frozen=True, slots=True)
class Network:
    """A CometBFT chain: its id, and its validators in the order of their nodes' addresses."""

    chain_id: str
    validators: tuple[Party, ...]


@dataclass(frozen=True, slots=True)
class _Said:
    """What one node says: its chain, its own key, and the keys and powers of all validators."""

    address: str
    chain_id: str
    key: bytes
    keys: frozenset[bytes]
    powers: frozenset[int]


def read_network(addresses: Sequence[str]) -> Network:
    """The chain whose nodes listen there, one for each validator; says what does not fit."""
    return asyncio.run(_read_network(addresses))


async def _read_network(addresses: Sequence[str]) -> Network:
    said = await asyncio.gather(*(_ask(address) for address in addresses))
    first = said[0]
    for each in said:
        if each.chain_id != first.chain_id:
            raise ModelError(
                f"the CometBFT at {each.address} is of chain {each.chain_id}, that at {first.address} of"
                f" {first.chain_id}",
                hint="name the nodes of one chain",
            )
    if {each.key for each in said} != first.keys or len(said) != len(first.keys):
        raise ModelError(
            f"{len(addresses)} nodes do not stand for the {len(first.keys)} validators of {first.chain_id}",
            hint="name the RPC of every validator once, HOST:PORT,HOST:PORT,...",
        )
    if len(first.powers) != 1:
        raise ModelError(
            f"the validators of {first.chain_id} have different powers", hint="Kabis counts them alike"
        )
    parties = [
        Party(f"validator-{number + 1}", each.key, SCHEME + str(parse_address(each.address)))
        for number, each in enumerate(said)
    ]
    return Network(first.chain_id, tuple(parties))


async def _ask(address: str) -> _Said:
    try:
        node = Node(parse_address(address))
    except ValueError as error:
        raise ModelError(f"--ordering: {error}", hint="write cometbft=HOST:PORT,HOST:PORT,...") from error
    try:
        status = await node.call(Call("status"), ANSWER_S)
        genesis = rpc.field(await node.call(Call("genesis"), ANSWER_S), "genesis")
        listed = rpc.field(genesis, "validators")
        return _Said(
            address,
            rpc.read_text(status, "node_info", "network"),
            _read_key(rpc.field(status, "validator_info")),
            frozenset(_read_key(each) for each in listed),
            frozenset(rpc.read_integer(each, "power") for each in listed),
        )
    except FAILURES as error:
        raise EnvironmentFailure(
            f"no CometBFT answers at {address}: {str(error) or type(error).__name__}",
            "see whether it runs, and whether that is the address of its RPC; `veristream broker status`",
        ) from error


def _read_key(value: Any) -> bytes:
    kind, key = rpc.read_text(value, "pub_key", "type"), rpc.read_bytes(value, "pub_key", "value")
    if kind != _ED25519 or len(key) != PUBLIC_KEY_BYTES:
        raise LyingPartyError(f"a validator's key is of type {kind}, not {_ED25519}")
    return key


def readdress(genesis: Genesis, network: Network) -> Genesis:
    """The genesis with the nodes' present addresses; raises ModelError unless they are its validators."""
    if network.chain_id != genesis.chain_id:
        raise ModelError(
            f"these nodes are of chain {network.chain_id}, and the genesis is of {genesis.chain_id}",
            hint="a chain stays with its nodes; choose another folder with --data for other nodes",
        )
    if {party.public for party in network.validators} != set(genesis.validator_keys):
        raise ModelError(
            f"the validators of {genesis.chain_id} have other keys than the genesis says",
            hint="the genesis decides whose signatures count: see who changed the nodes' keys",
        )
    places = {party.public: party.address for party in network.validators}
    moved = [replace(party, address=places[party.public]) for party in genesis.validators]
    return replace(genesis, validators=tuple(moved))


def found(genesis: Genesis) -> None:
    """Has the nodes take our genesis, unless they have it; returns when more than F say so."""
    asyncio.run(_found(genesis))


async def _found(genesis: Genesis) -> None:
    ordering = CometOrdering(genesis, ANSWER_S)
    try:
        async with asyncio.timeout(FOUND_PATIENCE_S):
            while True:
                said = await asyncio.gather(
                    *(_ask_founding(ordering, party) for party in _numbers(genesis))
                )
                if said.count(genesis.digest()) > genesis.faults:
                    return
                if not any(digest is not None for digest in said):
                    raise EnvironmentFailure(
                        f"no CometBFT node of {genesis.chain_id} answers", "see whether they run and listen"
                    )
                others = [digest for digest in said if digest and digest != genesis.digest()]
                if len(others) > genesis.faults:
                    raise ModelError(
                        f"the chain {genesis.chain_id} has another genesis already",
                        hint="use the folder that has it, or set up CometBFT anew",
                    )
                await asyncio.gather(
                    *(ordering.submit(party, genesis.encode()) for party in _numbers(genesis)),
                    return_exceptions=True,
                )
                await asyncio.sleep(AGAIN_S)
    except TimeoutError:
        raise EnvironmentFailure(
            f"the nodes of {genesis.chain_id} did not take the genesis within {FOUND_PATIENCE_S:.0f} s",
            "more than two thirds of them must run and reach each other",
        ) from None


def _numbers(genesis: Genesis) -> range:
    return range(len(genesis.validators))


async def _ask_founding(ordering: CometOrdering, number: int) -> bytes | None:
    """The digest of the genesis that a node has, empty before it has one; None if it does not answer."""
    try:
        return (await ordering.status_of(number)).founding
    except NodeError:
        return b""
    except LyingPartyError as error:
        raise EnvironmentFailure(
            f"a CometBFT node does not run Kabis' application: {error}", _APPLICATION
        ) from error
    except FAILURES:
        return None
