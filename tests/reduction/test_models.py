"""Every verdict on a model is the same with partial-order reduction and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reduction.spaces import difference, full_space, reduced_space
from veristream.expected import KnownModel
from veristream.ir.network import Network
from veristream.known import find_known, find_models
from veristream.library import load, load_all
from veristream.search.engine import Method, check, method_for
from veristream.search.limits import Limits
from veristream.search.reduction.relations import unsupported
from veristream.verdict import Result, word
from veristream_testing.states import explore

STATE_COUNT_MAX = 3000
SMALL = sorted((Path(__file__).parents[1] / "models").glob("*.net"))
KNOWN = [known for known in find_known(find_models(), ()) if known.path.suffix not in (".xml", ".xta")]


def _verdicts(network: Network, names: set[str] | None, reduction: bool, workers: int = 1) -> list[Result]:
    """The results of the properties that a search of states decides."""
    chosen = [one for one in network.properties if names is None or one.name in names]
    safety = [one for one in chosen if method_for(network, one) is Method.STATES]
    return list(check(network, safety, Limits(workers=workers, reduction=reduction)))


def _told(result: Result) -> tuple[str, str, str | None]:
    return result.property, word(result.verdict), getattr(result.verdict, "vacuous", None)


def _assert_same(network: Network, names: set[str] | None = None) -> None:
    full = _verdicts(network, names, False)
    assert not any(one.effort.reduced for one in full)
    for workers in (1, 2):
        reduced = _verdicts(network, names, True, workers)
        assert list(map(_told, reduced)) == list(map(_told, full))
    for one, other in zip(reduced, full, strict=True):
        if isinstance(one.verdict, type(other.verdict)) and not one.verdict.trace:
            assert one.effort.states <= other.effort.states


@pytest.mark.parametrize("path", SMALL, ids=[path.stem for path in SMALL])
def test_small_models(path: Path) -> None:
    network = load(path)
    _assert_same(network)
    for property_ in network.properties:
        _assert_same(network, {property_.name})


@pytest.mark.parametrize("path", SMALL, ids=[path.stem for path in SMALL])
def test_states_without_steps(path: Path) -> None:
    network = load(path)
    found = explore(network, STATE_COUNT_MAX)
    if unsupported(network) is None and len(found.states) < STATE_COUNT_MAX:
        full = full_space(network, found)
        assert difference(full, reduced_space(network)) is None
        assert difference(full, reduced_space(network, workers=2)) is None


@pytest.mark.models
@pytest.mark.parametrize("known", KNOWN, ids=[f"{one.path.parent.name}-{one.name}" for one in KNOWN])
def test_known_models(known: KnownModel) -> None:
    names = {expectation.property for expectation in known.expectations}
    for network in load_all(known.path, known.constants):
        if unsupported(network) is None and not network.symmetries:
            _assert_same(network, names)


def test_how_far_models_are_reduced() -> None:
    """Exact counts, so that a change that loses reduction is noticed."""
    philosophers = load(
        find_models() / "philosophers" / "philosophers.net", constants={"N": 7, "ORDERED": 1}
    )
    kafka = load(find_models() / "kafka" / "kafka.csp")
    for network, name, states, all_states in (
        (philosophers, "no_deadlock", 175, 2187),
        (kafka, "System() deadlockfree", 59739, 478562),
    ):
        (reduced,) = _verdicts(network, {name}, True)
        (full,) = _verdicts(network, {name}, False)
        assert (reduced.effort.states, full.effort.states) == (states, all_states)
        assert reduced.effort.reduced
