"""Random timed automata, written as UPPAAL's text: the compiler and the zones against regions.

The Network that the compiler makes of the text has as many regions and steps between them as the random
network, and each query has the verdict that the regions of the random network give. Traces are replayed.
Where the semantics of networks and of UPPAAL differ, the regions are those of the compiled Network.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, seed, settings
from hypothesis import strategies as st

from tests.parity.test_timed import check_shortest
from tests.parity.timed_walk import check_verdict
from tests.strategies_timed import timed_networks, timed_properties
from tests.timed_oracle import REGIONS_MAX
from veristream.errors import ModelError
from veristream.ir.network import ChannelKind, Network, Receive
from veristream.ir.property import Property
from veristream.languages.timed.lower.network import read_models
from veristream.search.engine import check
from veristream.search.limits import Limits
from veristream.source import Source
from veristream.verdict import word
from veristream_testing.timed import TimedExploration, explore_timed
from veristream_testing.xta import write_query, write_xta

pytestmark = pytest.mark.long

_LOGGER = logging.getLogger(__name__)

REFUSED = (
    "an invariant cannot compare a clock with `==`",
    "a clock guard on a broadcast receiver at a committed location is not supported",
)
"""What the random networks have, and UPPAAL or the compiler does not."""


def without_ends(network: Network) -> Network:
    """Returns the network without final locations, which UPPAAL does not have."""
    return replace(
        network,
        components=tuple(
            replace(one, locations=tuple(replace(place, final=False) for place in one.locations))
            for one in network.components
        ),
    )


def compiled(network: Network, property_: Property) -> Network | None:
    """Returns what the compiler makes of the network's text; None if it refuses that."""
    asked = Source("model.q", write_query(property_.claim) + "\n")
    try:
        (found,) = read_models(Source("model.xta", write_xta(network)), {}, asked)
    except ModelError as error:
        if error.message not in REFUSED:
            raise
        return None
    assert not found.rejected
    return found


def hears_at_times(network: Network) -> bool:
    """Whether a receiver of a broadcast asks clocks: without it a network takes no step, but UPPAAL does.

    The compiler adds edges for that, so the regions are those of what it makes of the text.
    """
    casts = {one.name for one in network.channels if one.kind is ChannelKind.BROADCAST}
    edges = [edge for component in network.components for edge in component.edges]
    return any(
        isinstance(edge.sync, Receive) and edge.sync.channel in casts and edge.clock_guard for edge in edges
    )


def size(space: TimedExploration) -> tuple[int, int]:
    """Returns how many regions there are, and steps between them; several ways of one step count once."""
    return len(space.states), sum(len(set(targets)) for targets in space.steps)


def test_verdicts_are_those_of_regions(share: int, models: int) -> None:
    compared: Counter[str] = Counter()

    @seed(share)
    @settings(max_examples=models, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def ask(data: st.DataObject) -> None:
        drawn = without_ends(data.draw(timed_networks()))
        wanted = data.draw(timed_properties(drawn))
        network = compiled(drawn, wanted)
        compared["refused"] += network is None
        assume(network is not None)
        assert network is not None
        space = explore_timed(replace(drawn, properties=(wanted,)), REGIONS_MAX)
        again = explore_timed(network, REGIONS_MAX)
        assert space.complete and again.complete
        if hears_at_times(drawn):
            compared["broadcasts to clocks"] += 1
            space = again
        assert size(space) == size(again), write_xta(drawn)
        expected = "holds" if space.decide(wanted.claim) else "violated"
        (asked,) = network.properties
        (result,) = check(network, [asked], Limits())
        assert word(result.verdict) == expected, write_xta(drawn) + write_query(wanted.claim)
        check_verdict(network, asked, result.verdict)
        if result.verdict.trace is not None and result.verdict.trace.shortest:
            check_shortest(again, asked, result.verdict.trace)
        compared["models"] += 1
        compared[expected] += 1
        compared[type(wanted.claim).__name__] += 1

    ask()
    _LOGGER.info("share %d: %s", share, dict(compared))
    assert compared["models"] >= models
    assert min(compared["holds"], compared["violated"]) >= models // 10
