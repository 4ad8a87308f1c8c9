"""Every verdict on runs of a model is the same with partial-order reduction and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reduction.runs import check_in_full, check_reduced
from tests.reduction.test_models import KNOWN, SMALL
from veristream.expected import KnownModel
from veristream.ir.expr import AtLocation
from veristream.ir.network import Network
from veristream.ir.property import Fairness, Holds, Property, Temporal, TemporalBinary, TemporalUnary
from veristream.known import find_models
from veristream.library import load, load_all
from veristream.search.engine import Method, check, method_for
from veristream.search.limits import Limits
from veristream.search.reduction.relations import unsupported
from veristream.verdict import Result, Violated, word

STATE_COUNT_MAX = 1_000_000


def _runs(network: Network) -> list[Property]:
    return [one for one in network.properties if method_for(network, one) is Method.RUNS]


def _told(result: Result) -> tuple[str, str | None]:
    return word(result.verdict), getattr(result.verdict, "vacuous", None)


def _assert_same(network: Network, property_: Property) -> None:
    full = check_in_full(network, property_, STATE_COUNT_MAX)
    assert not full.effort.reduced
    if word(full.verdict) != "unknown":
        reduced = check_reduced(network, property_)
        assert _told(reduced) == _told(full)
        if not isinstance(full.verdict, Violated):
            assert reduced.effort.states <= full.effort.states


@pytest.mark.parametrize("path", SMALL, ids=[path.stem for path in SMALL])
def test_small_models(path: Path) -> None:
    network = load(path)
    for property_ in _runs(network):
        _assert_same(network, property_)


@pytest.mark.models
@pytest.mark.parametrize("known", KNOWN, ids=[f"{one.path.parent.name}-{one.name}" for one in KNOWN])
def test_known_models(known: KnownModel) -> None:
    names = {expectation.property for expectation in known.expectations}
    for network in load_all(known.path, known.constants):
        for property_ in _runs(network) if unsupported(network) is None else ():
            if property_.name in names and property_.fairness is Fairness.NONE:
                _assert_same(network, property_)


def _eats(i: int) -> Holds:
    return Holds(AtLocation(f"Philosopher({i})", "eating"))


NEVER_BOTH = TemporalUnary("[]", TemporalUnary("!", TemporalBinary("&&", _eats(0), _eats(1))))


def test_how_far_models_are_reduced() -> None:
    """Exact counts, so that a change that loses reduction is noticed."""
    philosophers = load(
        find_models() / "philosophers" / "philosophers.net", constants={"N": 10, "ORDERED": 1}
    )
    kafka = load(find_models() / "kafka" / "kafka.csp")
    (all_consumed,) = (one for one in kafka.properties if one.name == "System() |= <>AllConsumed")
    never_both = Property("never both", Temporal(NEVER_BOTH))
    for network, property_, reduced_counts, full_counts in (
        (philosophers, never_both, (23533, 62852), (59049, 393660)),
        (kafka, all_consumed, (69135, 98499), (429512, 1445844)),
    ):
        (reduced,) = check(network, [property_], Limits(reduction=True))
        full = check_in_full(network, property_)
        assert word(reduced.verdict) == word(full.verdict) == "holds"
        assert (full.effort.states, full.effort.transitions) == full_counts
        assert (reduced.effort.states, reduced.effort.transitions) == reduced_counts
        assert reduced.effort.reduced


def test_a_small_product_is_searched_in_full() -> None:
    """It takes less time than to find out which actions depend on each other."""
    network = load(find_models() / "philosophers" / "philosophers.net", constants={"N": 7, "ORDERED": 1})
    (result,) = check(network, [Property("never both", Temporal(NEVER_BOTH))], Limits(reduction=True))
    assert word(result.verdict) == "holds"
    assert not result.effort.reduced and result.effort.states == 2187
