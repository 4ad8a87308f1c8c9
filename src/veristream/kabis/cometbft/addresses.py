"""Addresses of nodes: the prefix http:// marks the RPC of a CometBFT node, also in a genesis."""

from __future__ import annotations

from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.wire.endpoints import Address

SCHEME = "http://"


def is_cometbft(genesis: Genesis) -> bool:
    """Whether this chain's validators are CometBFT nodes."""
    return all(party.address.startswith(SCHEME) for party in genesis.validators)


def parse_address(address: str) -> Address:
    """Parses the address of a node's RPC, with or without http://; raises ValueError."""
    return Address.parse(address.removeprefix(SCHEME).rstrip("/"))
