"""An exploration by shuffles finds what the local one finds, whichever process runs a task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import veristream as vs
from tests.parity.shared import check_shared, opening_with_threads
from tests.parity.shuffled import opening_with_loops
from tests.parity.test_shared import MODELS, safety_of, told
from tests.strategies import networks, properties
from veristream.ir.property import Property
from veristream.library import load
from veristream.search.engine import check
from veristream.search.limits import Limits
from veristream.search.reach.safety import Open
from veristream.search.safety import SafetyClaim
from veristream.search.shared import handover
from veristream.search.shared.checkpoint import MANIFEST
from veristream.search.spark import shuffle
from veristream.verdict import word

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hands over even the smallest state space, at its first level."""
    monkeypatch.setattr(handover, "WIDE", 1)


@pytest.mark.parametrize(("part_count", "process_count"), [(1, 1), (2, 0), (3, 2)])
@pytest.mark.parametrize(
    "file",
    ["philosophers/philosophers.net", "message_queue/message_queue.net", "peterson/peterson.net"],
)
def test_models_agree(file: str, part_count: int, process_count: int) -> None:
    network = load(MODELS / file)
    wanted = safety_of(network)
    opening = opening_with_loops(network, part_count, process_count=process_count)
    shuffled = check_shared(network, wanted, opening)
    here = check(network, wanted, Limits())
    assert told(shuffled) == told(here)
    for one, other in zip(shuffled, here, strict=True):
        if one.verdict.trace is None:
            assert one.effort.depth == other.effort.depth


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.data())
def test_random_networks_agree(data: st.DataObject) -> None:
    network = data.draw(networks())
    drawn = data.draw(st.lists(properties(network), min_size=1, max_size=3))
    wanted = [
        Property(f"p{i}", one.claim) for i, one in enumerate(drawn) if isinstance(one.claim, SafetyClaim)
    ]
    if not wanted:
        return
    here = check(network, wanted, Limits(states_max=3000))
    if any(isinstance(one.verdict, vs.Unknown) and one.verdict.fault is None for one in here):
        return  # too large
    shuffled = check_shared(network, wanted, opening_with_loops(network, 3, process_count=2))
    for one, other in zip(shuffled, here, strict=True):
        assert word(one.verdict) == word(other.verdict), one.property
        if one.verdict.trace is None:
            assert told([one]) == told([other])


def test_a_path_is_fetched_window_by_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shuffle, "WINDOW_STATES", 8)
    network = load(MODELS / "philosophers/philosophers.net")
    wanted = safety_of(network)
    shuffled = check_shared(network, wanted, opening_with_loops(network, 2))
    here = check(network, wanted, Limits())
    assert told(shuffled) == told(here)
    assert any(one.verdict.trace is not None for one in shuffled)


def test_an_exploration_continues_from_its_checkpoint(tmp_path: Path) -> None:
    network = load(MODELS / "philosophers/philosophers.net", {"ORDERED": 1})
    wanted = [one for one in safety_of(network) if one.name == "no_deadlock"]
    folder = str(tmp_path)
    bound = Limits(states_max=60)
    (interrupted,) = check_shared(network, wanted, opening_with_loops(network, 2, folder), bound)
    assert word(interrupted.verdict) == "unknown"
    whole = told(check(network, wanted, Limits()))
    assert told(check_shared(network, wanted, opening_with_loops(network, 2, folder))) == whole


@pytest.mark.parametrize(
    ("first", "then"),
    [(opening_with_loops, opening_with_threads), (opening_with_threads, opening_with_loops)],
)
def test_the_other_exchange_continues_from_a_checkpoint(
    first: Callable[..., Open], then: Callable[..., Open], tmp_path: Path
) -> None:
    network = load(MODELS / "philosophers/philosophers.net", {"ORDERED": 1})
    wanted = [one for one in safety_of(network) if one.name == "no_deadlock"]
    folder = str(tmp_path)
    check_shared(network, wanted, first(network, 2, folder), Limits(states_max=60))
    assert (tmp_path / MANIFEST).exists()
    found = check_shared(network, wanted, then(network, 2, folder))
    assert told(found) == told(check(network, wanted, Limits()))


def test_what_was_found_before_an_interruption_is_found_again(tmp_path: Path) -> None:
    network = load(MODELS / "philosophers/philosophers.net", {"N": 7, "ORDERED": 1})
    wanted = safety_of(network)
    folder, bound = str(tmp_path), Limits(states_max=1500)
    interrupted = check_shared(network, wanted, opening_with_loops(network, 2, folder), bound)
    assert [word(one.verdict) for one in interrupted] == ["unknown", "unknown", "holds"]
    found = check_shared(network, wanted, opening_with_loops(network, 2, folder))
    assert told(found) == told(check(network, wanted, Limits()))


def test_no_memory_is_unknown() -> None:
    network = load(MODELS / "philosophers/philosophers.net", {"N": 11, "ORDERED": 1})
    wanted = [one for one in safety_of(network) if one.name == "no_deadlock"]
    tight = opening_with_loops(network, 2, memory_max_mib=1, start_states=100)
    (found,) = check_shared(network, wanted, tight)
    assert isinstance(found.verdict, vs.Unknown)
    assert found.verdict.reason.startswith("the memory budget of 512 MiB is used up")
    assert 0 < found.effort.states < 3**11


def test_states_in_files_are_the_same(tmp_path: Path) -> None:
    network = load(MODELS / "philosophers/philosophers.net", {"N": 7, "ORDERED": 1})
    wanted = safety_of(network)
    spilled = opening_with_loops(network, 2, spill=str(tmp_path), memory_max_mib=1, process_count=2)
    assert told(check_shared(network, wanted, spilled)) == told(check(network, wanted, Limits()))
