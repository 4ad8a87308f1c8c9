"""Founds a chain on existing CometBFT nodes: reads their identities, and submits our genesis as the first
transaction.

Our genesis must have CometBFT's chain id and validator keys. The first genesis founds the chain; all nodes
refuse a second one.
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
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.members import Party

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
    """A node's report: its chain, its own key, and the keys and powers of all validators."""

    address: str
    chain_id: str
    key: bytes
    keys: frozenset[bytes]
    powers: frozenset[int]


def read_network(addresses: Sequence[str]) -> Network:
    """Reads the chain of these nodes, one for each validator; raises an error if they do not match."""
    return asyncio.run(_read_network(addresses))


async def _read_network(addresses: Sequence[str]) -> Network:
    said = await asyncio.gather(*(_ask(address) for address in addresses))
    first = said[0]
    for each in said:
        if each.chain_id != first.chain_id:
            raise ModelError(
                f"the node at {each.address} belongs to chain {each.chain_id}, but {first.address} to"
                f" {first.chain_id}",
                hint="name the nodes of one chain",
            )
    if {each.key for each in said} != first.keys or len(said) != len(first.keys):
        raise ModelError(
            f"{len(addresses)} nodes are named, but {first.chain_id} has {len(first.keys)} validators",
            hint="name the RPC address of every validator once: HOST:PORT,HOST:PORT,...",
        )
    if len(first.powers) != 1:
        raise ModelError(
            f"the validators of {first.chain_id} have different powers",
            hint="Kabis requires equal voting powers",
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
            "check that it runs and that this is its RPC address; see `veristream broker status`",
        ) from error


def _read_key(value: Any) -> bytes:
    kind, key = rpc.read_text(value, "pub_key", "type"), rpc.read_bytes(value, "pub_key", "value")
    if kind != _ED25519 or len(key) != PUBLIC_KEY_BYTES:
        raise LyingPartyError(f"a validator's key has type {kind}, not {_ED25519}")
    return key


def readdress(genesis: Genesis, network: Network) -> Genesis:
    """Updates the nodes' addresses in the genesis; raises ModelError unless they are its validators."""
    if network.chain_id != genesis.chain_id:
        raise ModelError(
            f"these nodes belong to chain {network.chain_id}, the genesis to {genesis.chain_id}",
            hint="a chain cannot move to other nodes; choose another folder with --data",
        )
    if {party.public for party in network.validators} != set(genesis.validator_keys):
        raise ModelError(
            f"the validators of {genesis.chain_id} do not have the keys in the genesis",
            hint="the genesis defines which signatures count: find out why the nodes' keys changed",
        )
    places = {party.public: party.address for party in network.validators}
    moved = [replace(party, address=places[party.public]) for party in genesis.validators]
    return replace(genesis, validators=tuple(moved))


def found(genesis: Genesis) -> None:
    """Submits our genesis unless the nodes have it; returns when more than F nodes report it."""
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
                        f"no CometBFT node of {genesis.chain_id} answers", "check that they run and listen"
                    )
                others = [digest for digest in said if digest and digest != genesis.digest()]
                if len(others) > genesis.faults:
                    raise ModelError(
                        f"chain {genesis.chain_id} already has another genesis",
                        hint="use the folder with that genesis, or set up CometBFT again",
                    )
                await asyncio.gather(
                    *(ordering.submit(party, genesis.encode()) for party in _numbers(genesis)),
                    return_exceptions=True,
                )
                await asyncio.sleep(AGAIN_S)
    except TimeoutError:
        raise EnvironmentFailure(
            f"the nodes of {genesis.chain_id} did not accept the genesis within {FOUND_PATIENCE_S:.0f} s",
            "more than two thirds of them must run and reach each other",
        ) from None


def _numbers(genesis: Genesis) -> range:
    return range(len(genesis.validators))


async def _ask_founding(ordering: CometOrdering, number: int) -> bytes | None:
    """Returns the digest of a node's genesis, empty if it has none; None if it does not answer."""
    try:
        return (await ordering.status_of(number)).founding
    except NodeError:
        return b""
    except LyingPartyError as error:
        raise EnvironmentFailure(
            f"a CometBFT node does not run the Kabis application: {error}", _APPLICATION
        ) from error
    except FAILURES:
        return None
