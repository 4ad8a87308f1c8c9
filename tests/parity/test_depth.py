"""A depth-first search finds the same states and transitions as the interpreter, and the same verdicts as a
breadth-first one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.parity import test_symmetry
from tests.parity.engines import interpreted, searched
from tests.parity.test_models import PATHS, load
from tests.strategies import networks, properties
from veristream.expected import KnownModel
from veristream.ir.network import Network
from veristream.ir.property import Property
from veristream.known import find_known, find_models
from veristream.library import load_all
from veristream.search.engine import Method, check, method_for
from veristream.search.limits import Limits, Order
from veristream.search.reach import safety
from veristream.verdict import Result, Trace, Unknown, word

STATE_COUNT_MAX = 1500
KNOWN_STATE_COUNT_MAX = 200_000
"""Known models with more states are left out."""
RANDOM = settings(
    max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
KNOWN = [known for known in find_known(find_models(), ()) if known.path.suffix not in (".xml", ".xta")]
DEEP, WIDE = Limits(order=Order.DEPTH), Limits(workers=1)
SMALL = Limits(workers=1, states_max=KNOWN_STATE_COUNT_MAX)


@pytest.mark.long
@RANDOM
@given(networks())
def test_random_networks_have_the_same_states(network: Network) -> None:
    _assert_same_space(network, STATE_COUNT_MAX)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_models_have_the_same_states(path: Path) -> None:
    _assert_same_space(load(path), 100_000)


def _assert_same_space(network: Network, most: int) -> None:
    expected = interpreted(network, most)
    if expected is None:
        return
    found = searched(network, 1, deep=True)
    assert found is not None and found.depth >= expected.depth
    assert replace(found, depth=expected.depth) == expected


@pytest.mark.long
@RANDOM
@given(st.data())
def test_random_properties_have_the_same_verdicts(data: st.DataObject) -> None:
    """Without a search for shortest traces, so that those of the depth-first search are replayed."""
    network = data.draw(networks(faults=False))
    wanted = data.draw(st.lists(properties(network), min_size=1, max_size=4))
    if interpreted(network, STATE_COUNT_MAX) is not None:
        _assert_same_verdicts(network, [replace(one, name=f"p{i}") for i, one in enumerate(wanted)])


@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_models_have_the_same_verdicts(path: Path) -> None:
    network = load(path)
    _assert_same_verdicts(network, network.properties)


@pytest.mark.parametrize(("name", "constants"), test_symmetry.CASES)
def test_symmetric_models_have_the_same_verdicts(name: str, constants: dict[str, int]) -> None:
    network = test_symmetry.load(name, constants)
    _assert_same_verdicts(network, network.properties)


@pytest.mark.models
@pytest.mark.parametrize("known", KNOWN, ids=[f"{one.path.parent.name}-{one.name}" for one in KNOWN])
def test_known_models_have_the_same_verdicts(known: KnownModel) -> None:
    names = {expectation.property for expectation in known.expectations}
    for network in load_all(known.path, known.constants):
        wanted = [one for one in network.properties if one.name in names]
        safe = [one for one in wanted if method_for(network, one) is Method.STATES]
        if all(one.effort.states < KNOWN_STATE_COUNT_MAX for one in check(network, safe, SMALL)):
            _assert_same_verdicts(network, safe)


def _assert_same_verdicts(network: Network, wanted: list[Property] | tuple[Property, ...]) -> None:
    chosen = [one for one in wanted if method_for(network, one) is Method.STATES]
    wide = check(network, chosen, WIDE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(safety, "SHORTEST_WITHIN", 1)
        deep = check(network, chosen, DEEP)
    for one, other in zip(deep, wide, strict=True):
        assert one.effort.depth_first and not other.effort.depth_first
        if _fails(one) or _fails(other):
            continue  # what is found before a fault depends on the order
        assert _told(one) == _told(other)
        if one.verdict.trace is not None and other.verdict.trace is not None:
            _assert_no_shorter(one.verdict.trace, other.verdict.trace)
        if _is_full(other):
            counts = other.effort.states, other.effort.transitions
            assert (one.effort.states, one.effort.transitions) == counts


def _assert_no_shorter(deep: Trace, wide: Trace) -> None:
    if wide.shortest:
        assert len(deep.steps) >= len(wide.steps)


def _fails(result: Result) -> bool:
    return isinstance(result.verdict, Unknown) and result.verdict.fault is not None


def _is_full(result: Result) -> bool:
    """Whether the search had to see every state."""
    return result.verdict.trace is None and not isinstance(result.verdict, Unknown)


def _told(result: Result) -> tuple[str, str, str | None]:
    return result.property, word(result.verdict), getattr(result.verdict, "vacuous", None)
