"""Opens the channels of a chain. The only module that knows every implementation of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from veristream.kabis.channels.interfaces import Channels
from veristream.kabis.channels.parties import FollowingChannels, StorageParties
from veristream.kabis.cometbft.addresses import is_cometbft
from veristream.kabis.cometbft.client import CometOrdering
from veristream.kabis.kafka.settings import KafkaSettings
from veristream.kabis.ledger.succession import Handover
from veristream.kabis.ordering.asking import Validators
from veristream.kabis.ordering.client import OrderingClient
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.storage.client import StorageClient
from veristream.kabis.wire.handshake import Identity


def open_ordering(
    genesis: Genesis, identity: Identity, timeout_s: float = 5.0, handovers: Sequence[Handover] = ()
) -> Validators:
    """Returns the validation channel: our own validators, or the nodes of CometBFT.

    With handovers, it begins with the members of today, even if no founding one is left.
    """
    if is_cometbft(genesis):
        return CometOrdering(genesis, timeout_s)
    ordering = OrderingClient(genesis, identity, timeout_s)
    ordering.know(handovers)
    return ordering


async def open_channels(
    genesis: Genesis,
    identity: Identity,
    timeout_s: float,
    kafka: Mapping[str, KafkaSettings] | None = None,
    handovers: Sequence[Handover] = (),
) -> Channels:
    """Returns both channels: all validators, and all storage parties, which follow the members."""
    storage = open_storage(genesis, identity, timeout_s)
    ordering = open_ordering(genesis, identity, timeout_s, handovers)
    return FollowingChannels(storage, ordering, kafka or {})


def open_storage(genesis: Genesis, identity: Identity, timeout_s: float) -> StorageParties:
    """Returns the channels to the founding storage parties, to follow the members from there."""
    return StorageParties(genesis.storage, lambda party: StorageClient(identity, party, timeout_s))
