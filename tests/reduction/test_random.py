"""Random networks: what partial-order reduction must preserve, it does."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.reduction.spaces import difference, full_space, plain, reduced_space
from tests.strategies import networks, properties
from veristream.ir.expr import Expr
from veristream.ir.network import Network
from veristream.ir.property import Always, Reachable
from veristream_testing.states import explore

pytestmark = pytest.mark.long

STATE_COUNT_MAX = 1500
RANDOM = settings(
    max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)


@RANDOM
@given(networks())
def test_ends_and_faults_are_preserved(network: Network) -> None:
    network = plain(network)
    found = explore(network, STATE_COUNT_MAX)
    if len(found.states) < STATE_COUNT_MAX:
        assert difference(full_space(network, found), reduced_space(network)) is None


@RANDOM
@given(st.data())
def test_goals_are_preserved(data: st.DataObject) -> None:
    network = plain(data.draw(networks(faults=data.draw(st.booleans()))))
    goals = data.draw(st.lists(_conditions(network), min_size=1, max_size=3))
    found = explore(network, STATE_COUNT_MAX)
    if len(found.states) < STATE_COUNT_MAX:
        full = full_space(network, found, goals)
        assert difference(full, reduced_space(network, goals)) is None


@st.composite
def _conditions(draw: st.DrawFn, network: Network) -> Expr:
    property_ = draw(properties(network).filter(lambda one: isinstance(one.claim, Always | Reachable)))
    assert isinstance(property_.claim, Always | Reachable)
    return property_.claim.condition
