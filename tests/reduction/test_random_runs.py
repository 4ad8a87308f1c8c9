"""Random pairs of a network and a formula: the verdict is the same with partial-order reduction."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.ltl.oracle import breaks
from tests.reduction.runs import check_in_full, check_reduced, loose_networks, properties
from tests.reduction.spaces import plain
from tests.strategies import networks
from veristream.verdict import Violated, word
from veristream_testing.states import explore

pytestmark = pytest.mark.long

PAIRS = 400
STATE_COUNT_MAX = 400
RANDOM = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)


def test_verdicts_are_equal() -> None:
    seen: Counter[tuple[str, bool]] = Counter()

    @settings(RANDOM, max_examples=PAIRS)
    @given(st.data())
    def compare(data: st.DataObject) -> None:
        network = data.draw(loose_networks())
        property_ = data.draw(properties(network))
        full, reduced = check_in_full(network, property_), check_reduced(network, property_)
        assert word(reduced.verdict) == word(full.verdict)
        assert getattr(reduced.verdict, "vacuous", None) == getattr(full.verdict, "vacuous", None)
        if isinstance(reduced.verdict, Violated):
            assert reduced.verdict.trace is not None
            assert breaks(network, property_, reduced.verdict.trace)
        seen[word(full.verdict), reduced.effort.reduced] += 1

    compare()
    assert seen.total() >= PAIRS
    assert seen["holds", True] >= PAIRS // 8 and seen["violated", True] >= PAIRS // 8, seen


@settings(RANDOM, max_examples=100)
@given(st.data())
def test_networks_with_everything(data: st.DataObject) -> None:
    """Among them networks that fail: after a failure, the search is repeated in full."""
    network = plain(data.draw(networks(faults=data.draw(st.booleans()))))
    property_ = data.draw(properties(network))
    if explore(network, STATE_COUNT_MAX).complete:
        full, reduced = check_in_full(network, property_), check_reduced(network, property_)
        assert word(reduced.verdict) == word(full.verdict)
        assert getattr(reduced.verdict, "fault", None) == getattr(full.verdict, "fault", None)
