"""The verdict on a property of a timed network by visiting its regions one by one."""

from __future__ import annotations

from dataclasses import replace

from veristream.ir.network import Network
from veristream.ir.property import Property
from veristream_testing.timed import explore_timed

REGIONS_MAX = 20_000


def oracle_verdict(network: Network, property: Property) -> bool:  # noqa: A002
    """Whether the property is true of the network, which never faults."""
    # What other properties compare clocks with does not matter, and makes more regions.
    exploration = explore_timed(replace(network, properties=(property,)), REGIONS_MAX)
    return exploration.decide(property.claim)
