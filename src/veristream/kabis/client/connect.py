"""The validation channel of a chain, whoever its validators are."""

from __future__ import annotations

from veristream.kabis.cometbft.addresses import is_cometbft
from veristream.kabis.cometbft.client import CometOrdering
from veristream.kabis.ordering.asking import Validators
from veristream.kabis.ordering.client import OrderingClient
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.wire.handshake import Identity


def open_ordering(genesis: Genesis, identity: Identity, timeout_s: float = 5.0) -> Validators:
    """The validation channel: our validators, or CometBFT's nodes."""
    if is_cometbft(genesis):
        return CometOrdering(genesis, timeout_s)
    return OrderingClient(genesis, identity, timeout_s)
