"""Where nodes listen: an address with http:// in front is a CometBFT node's RPC, in a genesis too."""

from __future__ import annotations

from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.wire.endpoints import Address

SCHEME = "http://"


def is_cometbft(genesis: Genesis) -> bool:
    """Whether this chain's validators are nodes of CometBFT."""
    return all(party.address.startswith(SCHEME) for party in genesis.validators)


def parse_address(address: str) -> Address:
    """Where a node's RPC listens, written with or without http:// in front; raises ValueError."""
    return Address.parse(address.removeprefix(SCHEME).rstrip("/"))
