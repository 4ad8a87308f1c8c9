"""A shared exploration finds what the local one finds: counts, verdicts, lengths of traces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import veristream as vs
from tests.parity.shared import check_shared, opening_with_threads
from tests.strategies import networks, properties
from veristream.errors import EnvironmentFailure, ModelError
from veristream.ir.network import Network
from veristream.ir.property import Property
from veristream.ir.text.read import read_network
from veristream.library import load
from veristream.search.engine import check
from veristream.search.limits import Limits
from veristream.search.safety import SafetyClaim
from veristream.search.shared import handover
from veristream.search.shared.checkpoint import MANIFEST
from veristream.source import Source
from veristream.verdict import Result, word

MODELS = Path(__file__).parents[2] / "models"


def safety_of(network: Network) -> list[Property]:
    """Returns the properties that a shared exploration decides."""
    return [one for one in network.properties if isinstance(one.claim, SafetyClaim)]


def told(results: Sequence[Result]) -> list[tuple[object, ...]]:
    """What must not depend on how states are divided; counts only if everything was explored."""
    return [
        (
            one.property,
            word(one.verdict),
            None if one.verdict.trace is None else len(one.verdict.trace.steps),
            (one.effort.states, one.effort.transitions) if one.verdict.trace is None else None,
        )
        for one in results
    ]


@pytest.mark.parametrize("part_count", [1, 2, 3])
@pytest.mark.parametrize(
    "file",
    ["philosophers/philosophers.net", "message_queue/message_queue.net", "peterson/peterson.net"],
)
def test_models_agree(file: str, part_count: int) -> None:
    network = load(MODELS / file)
    wanted = safety_of(network)
    shared = check_shared(network, wanted, opening_with_threads(network, part_count))
    assert told(shared) == told(check(network, wanted, Limits()))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.data())
def test_random_networks_agree(data: st.DataObject) -> None:
    network = data.draw(networks())
    drawn = data.draw(st.lists(properties(network), min_size=1, max_size=3))
    wanted = [
        Property(f"p{i}", one.claim) for i, one in enumerate(drawn) if isinstance(one.claim, SafetyClaim)
    ]
    if not wanted:
        return
    bounded = Limits(states_max=3000)
    local = check(network, wanted, bounded)
    if any(isinstance(one.verdict, vs.Unknown) and one.verdict.fault is None for one in local):
        return  # too large
    shared = check_shared(network, wanted, opening_with_threads(network, 2))
    for one, other in zip(shared, local, strict=True):
        assert word(one.verdict) == word(other.verdict), one.property
        if one.verdict.trace is None:
            assert told([one]) == told([other])


WIDE_STEP = """
network wide_step
var x: 0..4999
component P {
  location start initial
  location few
  location end
  edge start -> few { select k: 0..9  action choose  do { x := k } }
  edge few -> end { action wait  when x != 5 }
  edge few -> end { select k: 0..4999  action jump  when x == 5  do { x := k } }
}
property small: always x < 5000
"""


@pytest.mark.parametrize("part_count", [1, 2, 3])
def test_a_state_with_more_successors_than_a_buffer_holds(part_count: int) -> None:
    network = read_network(Source("wide_step.net", WIDE_STEP))
    wanted = list(network.properties)
    shared = check_shared(network, wanted, opening_with_threads(network, part_count))
    assert told(shared) == told(check(network, wanted, Limits()))
    assert shared[0].effort.states == 1 + 10 + 5000


def test_an_exploration_continues_from_its_checkpoint(tmp_path: Path) -> None:
    network = load(MODELS / "philosophers/philosophers.net", {"ORDERED": 1})
    wanted = [one for one in safety_of(network) if one.name == "no_deadlock"]
    folder = str(tmp_path)
    interrupted = check_shared(
        network, wanted, opening_with_threads(network, 2, folder), Limits(states_max=60)
    )
    assert word(interrupted[0].verdict) == "unknown"
    assert (tmp_path / MANIFEST).exists()
    whole = check_shared(network, wanted, opening_with_threads(network, 2, folder))
    assert told(whole) == told(check(network, wanted, Limits()))


@pytest.mark.parametrize("start_states", [None, 1, 300])
def test_what_was_decided_before_a_checkpoint_stays_decided(
    start_states: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "WIDE", 2)
    network = load(MODELS / "philosophers/philosophers.net", {"N": 7, "ORDERED": 1})
    wanted = safety_of(network)
    folder = str(tmp_path)
    opening = opening_with_threads(network, 2, folder, start_states=start_states)
    interrupted = check_shared(network, wanted, opening, Limits(states_max=1500))
    assert {word(one.verdict) for one in interrupted} == {"holds", "unknown"}
    whole = check_shared(network, wanted, opening_with_threads(network, 2, folder))
    assert told(whole) == told(check(network, wanted, Limits()))


def test_a_checkpoint_of_another_search_is_refused(tmp_path: Path) -> None:
    network = load(MODELS / "philosophers/philosophers.net", {"ORDERED": 1})
    wanted = [one for one in safety_of(network) if one.name == "no_deadlock"]
    folder = str(tmp_path)
    check_shared(network, wanted, opening_with_threads(network, 2, folder), Limits(states_max=60))
    with pytest.raises(EnvironmentFailure, match="2 parts for 3 workers"):
        check_shared(network, wanted, opening_with_threads(network, 3, folder))
    other = load(MODELS / "philosophers/philosophers.net", {"N": 4})
    with pytest.raises(ModelError, match="another model"):
        check_shared(other, safety_of(other)[:1], opening_with_threads(other, 2, folder))


def test_states_in_files_are_the_same(tmp_path: Path) -> None:
    network = load(MODELS / "philosophers/philosophers.net", {"N": 8, "ORDERED": 1})
    wanted = safety_of(network)
    spilled = opening_with_threads(network, 2, spill=str(tmp_path), memory_max_mib=1)
    assert told(check_shared(network, wanted, spilled)) == told(check(network, wanted, Limits()))


@pytest.mark.parametrize("start_states", [1, 100, 1000])
def test_an_exploration_is_handed_over_between_two_levels(
    start_states: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "WIDE", 2)
    network = load(MODELS / "philosophers/philosophers.net", {"N": 7})
    wanted = safety_of(network)
    handed = opening_with_threads(network, 3, start_states=start_states)
    assert told(check_shared(network, wanted, handed)) == told(check(network, wanted, Limits()))
