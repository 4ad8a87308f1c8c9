"""A shared product gives the verdicts of the local search, and the same counts if it is complete."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.ltl.pairs import PAIRS, Pair, read_pair
from tests.ltl.test_random import compare, dense_networks, looks, properties
from tests.parity.shared import sharing_with_threads
from veristream.ir.network import Network
from veristream.ir.property import Property
from veristream.ir.text.read import read_network
from veristream.library import load
from veristream.search.engine import check
from veristream.search.limits import Limits, silent
from veristream.search.shared.runs import SharedLook, check_shared_runs
from veristream.source import Source
from veristream.verdict import Holds, Result, Unknown, Violated, word

MODELS = Path(__file__).parents[2] / "models"


def shared(
    network: Network,
    property_: Property,
    part_count: int = 2,
    limits: Limits | None = None,
    start_states: int = 0,
    folder: str | None = None,
    spill: str | None = None,
    apart: bool = True,
) -> Result:
    """The result of a property when threads share its product, by default from the beginning; the remainder
    stays distributed, as if it were too large for the driver, or is gathered there."""
    share = sharing_with_threads(part_count, folder=folder)
    with mock.patch.object(SharedLook, "_fits", not apart):
        return check_shared_runs(network, property_, limits or Limits(), silent, share, start_states, spill)


SOME = 5
"""`make test` checks every pair of this many, .ci/run checks all."""


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(pair, marks=() if number % SOME == 0 else pytest.mark.long)
        for number, pair in enumerate(PAIRS)
    ],
    ids=lambda pair: pair.name,
)
def test_known_verdicts(pair: Pair) -> None:
    network, property_ = read_pair(pair)
    number = len(pair.name)
    found = shared(network, property_, 1 + number % 3, apart=bool(number & 1))
    assert isinstance(found.verdict, Holds if pair.holds else Violated)
    if pair.holds:
        (local,) = check(network, [property_], Limits())
        assert found.verdict == local.verdict
        assert numbers(found) == numbers(local)


def numbers(result: Result) -> tuple[str, int, int, int]:
    """Returns the verdict, and the counts of a complete exploration."""
    effort = result.effort
    return word(result.verdict), effort.states, effort.transitions, effort.depth


@pytest.fixture
def philosophers() -> tuple[Network, Property]:
    """A property that holds under fairness: 5 philosophers, one of them left-handed."""
    network = load(MODELS / "philosophers/philosophers.net", {"ORDERED": 1})
    return network, next(one for one in network.properties if one.name == "nobody_starves")


def test_a_product_continues_from_its_checkpoint(
    philosophers: tuple[Network, Property], tmp_path: Path
) -> None:
    (local,) = check(philosophers[0], [philosophers[1]], Limits())
    folder = str(tmp_path)
    interrupted = shared(*philosophers, limits=Limits(states_max=local.effort.states // 2), folder=folder)
    assert word(interrupted.verdict) == "unknown"
    before = set(tmp_path.iterdir())
    assert numbers(shared(*philosophers, folder=folder)) == numbers(local)
    assert before < set(tmp_path.iterdir()), "the second run must add to the checkpoint"


def test_edges_in_files_are_the_same(philosophers: tuple[Network, Property], tmp_path: Path) -> None:
    (local,) = check(philosophers[0], [philosophers[1]], Limits())
    assert numbers(shared(*philosophers, 3, spill=str(tmp_path))) == numbers(local)


@pytest.mark.parametrize("start_states", [10, 1 << 20])
def test_a_product_begins_in_the_driver_and_is_shared_once_it_is_large(
    philosophers: tuple[Network, Property], start_states: int
) -> None:
    (local,) = check(philosophers[0], [philosophers[1]], Limits())
    assert numbers(shared(*philosophers, start_states=start_states)) == numbers(local)


LEFT_OR_KEPT = """
network left_or_kept
component P {
  location start initial
  location left
  location kept
  location good
  edge start -> FIRST { action one }
  edge start -> SECOND { action other }
  edge left -> left { action wait }
  edge left -> good { action leave }
  edge kept -> kept { action stay }
  edge good -> good { action rest }
}
property p: ltl <> {P@good} under strong-global
"""


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("part_count", [1, 2, 3])
@pytest.mark.parametrize("order", [("left", "kept"), ("kept", "left")])
def test_a_component_that_is_left_again_hides_no_other(
    order: tuple[str, str], part_count: int, apart: bool
) -> None:
    text = LEFT_OR_KEPT.replace("FIRST", order[0]).replace("SECOND", order[1])
    network = read_network(Source("model.net", text))
    found = shared(network, network.properties[0], part_count, apart=apart).verdict
    assert isinstance(found, Violated) and found.trace is not None
    assert found.trace.steps[-1].action == "stay"


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("part_count", [1, 2, 3])
def test_components_that_are_left_again_are_no_runs(part_count: int, apart: bool) -> None:
    text = LEFT_OR_KEPT.replace("FIRST", "left").replace("SECOND", "good")
    network = read_network(Source("model.net", text))
    assert isinstance(shared(network, network.properties[0], part_count, apart=apart).verdict, Holds)


def test_limits_of_the_user_are_respected(philosophers: tuple[Network, Property]) -> None:
    found = shared(*philosophers, limits=Limits(states_max=20), start_states=50)
    assert found.verdict == Unknown("the limit of 20 states was reached (--max-states)")


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.data())
def test_random_networks_agree_with_the_oracle(data: st.DataObject) -> None:
    network = data.draw(dense_networks())
    parts, apart = data.draw(st.integers(1, 3)), data.draw(st.booleans())
    search = partial(shared, part_count=parts, apart=apart)
    compare(network, data.draw(properties(network)), data.draw(looks), search)
