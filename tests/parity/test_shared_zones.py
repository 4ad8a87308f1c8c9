"""A shared zone search finds what the local one finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.parity.shared_zones import (
    action_count,
    check_alike,
    check_kept_alike,
    check_zones,
    opening_zones_with_threads,
    run_here,
    run_parts,
    sharing_with_threads,
)
from tests.strategies_timed import timed_networks, timed_properties
from tests.timed.test_cases import CASES, Case
from tests.unit.search.zones.test_counts import FAN, pieces
from veristream.expected import KnownModel, find_known
from veristream.ir.network import Network
from veristream.ir.property import Always, DeadlockFree, Property, Reachable
from veristream.ir.text.read import read_network
from veristream.library import load
from veristream.search.limits import Limits, silent
from veristream.search.shared import zone_part
from veristream.search.shared.assignment import Assignment
from veristream.search.shared.checkpoint import MANIFEST
from veristream.search.shared.crew import WorkerLostError
from veristream.search.shared.exploration import CrewExploration
from veristream.search.shared.zones import ShareZones, Workers, check_shared_zones
from veristream.search.zones.inquiry import inquire
from veristream.search.zones.safety import REACH_FIRST, ZoneSearch, opening_zones_locally
from veristream.source import Source
from veristream.verdict import Holds, Unknown, word

MODELS = Path(__file__).parents[2] / "models"
DEMOS = [pytest.param(known, id=known.name) for known in find_known(MODELS, ["uppaal"])]


def is_safety(property_: Property) -> bool:
    """Whether a search of zones decides the property."""
    return isinstance(property_.claim, Always | Reachable | DeadlockFree)


def safety_of(network: Network) -> list[Property]:
    """Returns the properties that zone searches decide."""
    return [one for one in network.properties if is_safety(one)]


SOME = 5
"""`make test` checks one of this many cases, .ci/run checks all."""


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(*case.values, id=case.id, marks=() if number % SOME == 0 else pytest.mark.long)
        for number, case in enumerate(CASES)
    ],
)
def test_hand_cases_agree(case: Case) -> None:
    network = load(case.path)
    for part_count in (1, 2, 3):
        check_alike(network, safety_of(network), opening_zones_with_threads(part_count))


@pytest.mark.parametrize("known", DEMOS)
def test_demos_agree(known: KnownModel) -> None:
    network = load(known.path, known.constants)
    for part_count in (1, 2, 3):
        check_alike(network, safety_of(network), opening_zones_with_threads(part_count))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.data())
def test_random_networks_agree(data: st.DataObject) -> None:
    network = data.draw(timed_networks())
    drawn = data.draw(st.lists(timed_properties(network), min_size=2, max_size=3))
    wanted = [Property(f"p{i}", one.claim) for i, one in enumerate(drawn) if is_safety(one)]
    check_alike(network, wanted, opening_zones_with_threads(data.draw(st.integers(1, 3))))


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.data())
def test_the_zones_that_are_kept_depend_neither_on_order_nor_on_parts(data: st.DataObject) -> None:
    network = data.draw(timed_networks())
    property_ = data.draw(timed_properties(network).filter(is_safety))
    inquiry = inquire(network, [property_], REACH_FIRST)
    shared = run_parts(inquiry, data.draw(st.integers(2, 3)), Random(data.draw(st.integers(0, 99))))
    check_kept_alike(shared, [run_here(inquiry)])


def network_of(text: str, claim: str) -> Network:
    """A timed network with one property."""
    return read_network(Source("m.net", f"network m\ntimed\n{text}\nproperty p: {claim}"), {})


def fischer(processes: int) -> Network:
    return load(MODELS / "uppaal" / "fischer.xml", {"N": processes})


def named(network: Network, *names: str) -> list[Property]:
    return [one for one in network.properties if one.name in names]


@pytest.mark.parametrize("claim", ["always true", "reachable n == 599", "always n != 599"])
def test_a_node_with_more_successors_than_an_outbox_holds(
    claim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zone_part, "OUTBOX_BYTES", 1)
    network = network_of(FAN, claim)
    check_alike(network, network.properties, opening_zones_with_threads(3))
    (result,) = check_zones(network, network.properties, opening_zones_with_threads(3))
    assert (result.effort.states, result.effort.transitions) == (601, 600)


@pytest.mark.parametrize("claim", ["always true", "deadlockfree", "reachable P@b and not deadlock"])
def test_a_zone_in_more_pieces_than_there_is_room_for(claim: str) -> None:
    network = network_of(pieces(50), claim)
    check_alike(network, network.properties, opening_zones_with_threads(2))


def test_a_part_without_memory_leaves_the_property_unknown() -> None:
    network = fischer(6)
    wanted = named(network, "A[] not deadlock")
    (result,) = check_zones(network, wanted, opening_zones_with_threads(2, memory_max_mib=1))
    assert result.verdict == Unknown("the memory budget of 2 MiB is used up (--max-memory-mib)")


def test_a_limit_of_states_is_a_limit_of_zones() -> None:
    network = fischer(4)
    wanted = named(network, "A[] not deadlock")
    (result,) = check_zones(network, wanted, opening_zones_with_threads(2), Limits(states_max=100))
    assert result.verdict == Unknown("the limit of 100 states was reached (--max-states)")


def test_a_search_continues_from_its_checkpoint(tmp_path: Path) -> None:
    network = fischer(4)
    wanted = named(network, "A[] not deadlock")
    saved = opening_zones_with_threads(2, folder=str(tmp_path))
    (interrupted,) = check_zones(network, wanted, saved, Limits(states_max=300))
    assert word(interrupted.verdict) == "unknown"
    assert (tmp_path / MANIFEST).exists()
    files = set(tmp_path.glob("*.parquet"))
    check_alike(network, wanted, saved)
    levels = sorted(int(path.stem.split("-")[2]) for path in set(tmp_path.glob("*.parquet")) - files)
    assert levels[0] > max(int(path.stem.split("-")[2]) for path in files), "it started again"


def test_what_was_found_before_a_checkpoint_is_still_found_after_it(tmp_path: Path) -> None:
    network = fischer(5)
    (never,) = named(network, "A[] forall (i : id_t) forall (j : id_t) P(i).cs && P(j).cs imply i == j")
    (soon,) = named(network, "E<> P(1).cs")
    saved = opening_zones_with_threads(2, folder=str(tmp_path))
    interrupted = check_zones(network, [never, soon], saved, Limits(states_max=200))
    assert [word(one.verdict) for one in interrupted] == ["unknown", "holds"]
    check_alike(network, [never, soon], saved)


@pytest.mark.parametrize(("start_states", "shares"), [(0, 1), (100, 1), (None, 0), (1 << 20, 0)])
def test_a_search_is_shared_once_it_is_large(start_states: int | None, shares: int) -> None:
    network = fischer(4)
    wanted = named(network, "A[] not deadlock")
    assignments: list[Assignment] = []
    workers = Workers(noting(sharing_with_threads(2), assignments), start_states, lambda run: run())
    found = check_shared_zones(network, wanted, Limits(), silent, workers)
    assert [word(found[one.name].verdict) for one in wanted] == ["holds"]
    assert len(assignments) == shares
    few = check_shared_zones(network, wanted, Limits(states_max=50), silent, workers)
    reason = "the limit of 50 states was reached (--max-states)"
    assert [few[one.name].verdict for one in wanted] == [Unknown(reason)]
    assert len(assignments) == shares + (start_states == 0)


def noting(share: ShareZones, assignments: list[Assignment]) -> ShareZones:
    """Shares explorations, and records their assignments."""

    @contextmanager
    def noted(assignment_for: Callable[[int], Assignment]) -> Iterator[CrewExploration]:
        assignments.append(assignment_for(1))
        with share(assignment_for) as shared:
            yield shared

    return noted


def test_a_search_that_does_not_fit_into_the_driver_is_shared() -> None:
    network = fischer(6)
    wanted = named(network, "A[] not deadlock")
    assignments: list[Assignment] = []
    workers = Workers(noting(sharing_with_threads(2, 64), assignments), None, lambda run: run())
    found = check_shared_zones(network, wanted, Limits(memory_max_mib=1), silent, workers)
    assert len(assignments) == 1
    assert [found[one.name].verdict for one in wanted] == [
        Unknown("the memory budget of 128 MiB is used up (--max-memory-mib)")
    ]


def test_a_search_starts_again_if_a_worker_is_lost() -> None:
    network = fischer(3)
    wanted = named(network, "A[] not deadlock")
    attempts = 0

    def again(run: Callable[[], ZoneSearch]) -> ZoneSearch:
        nonlocal attempts
        while True:
            attempts += 1
            try:
                return run()
            except WorkerLostError:
                continue

    def failing(times: list[int]) -> ShareZones:
        @contextmanager
        def share(assignment_for: Callable[[int], Assignment]) -> Iterator[CrewExploration]:
            with sharing_with_threads(2)(assignment_for) as shared:
                if times.pop():
                    shared.crew.workers[0].close()
                yield shared

        return share

    workers = Workers(failing([0, 1, 1]), 0, again)
    found = check_shared_zones(network, wanted, Limits(), silent, workers)
    assert attempts == 3
    assert [word(found[one.name].verdict) for one in wanted] == ["holds"]


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        ("reachable P@q", "holds"),  # q is at the same depth as the failure
        ("always not P@q", "violated"),
        ("reachable P@t", "unknown"),  # one step more
        ("deadlockfree", "unknown"),  # if a step fails, it is not known whether one is possible
        ("reachable P@s and deadlock", "unknown"),
        ("reachable P@s and not deadlock", "unknown"),
        ("reachable P@q maximise n", "unknown"),
    ],
)
def test_what_is_found_in_the_level_in_which_the_model_fails_is_found(claim: str, expected: str) -> None:
    text = """
    clock x
    var n: 0..2 = 0
    component P {
      location s initial
      location q
      location t
      edge s -> t { do { n := n - 1 } }
      edge s -> q
      edge q -> t
    }
    """
    network = network_of(text, claim)
    (result,) = check_zones(network, network.properties, opening_zones_locally(Limits()))
    assert word(result.verdict) == expected
    for part_count in (1, 2, 3):
        check_alike(network, network.properties, opening_zones_with_threads(part_count))


def test_a_deadlock_may_be_nearer_than_what_was_found_first() -> None:
    # b is a deadlock, and one step nearer than d, which c leads to before b is expanded.
    text = """
    clock x
    component P {
      location a initial
      location b
      location c
      location d
      edge a -> c
      edge a -> b
      edge c -> d
      edge d -> d
    }
    """
    network = network_of(text, "reachable P@d or deadlock")
    for open_ in (opening_zones_locally(Limits()), opening_zones_with_threads(2)):
        (result,) = check_zones(network, network.properties, open_)
        trace = result.verdict.trace
        assert trace is not None
        assert action_count(trace) == 1 or not trace.shortest


@pytest.mark.parametrize(
    ("goal", "told"),
    [
        ("minimise clock(x)", "min x = 2"),
        ("maximise clock(x)", "max x = 9"),
        ("minimise n", "min n = 1"),
        ("maximise n", "max n = 8"),
    ],
)
def test_the_best_value_of_all_parts(goal: str, told: str) -> None:
    edges = " ".join(f"edge a -> b {{ clock x == {k + 1} do {{ n := {k} }} }}" for k in range(1, 9))
    text = f"""
    clock x
    var n: 0..9 = 9
    component P {{
      location a initial
      urgent location b
      {edges}
    }}
    """
    network = network_of(text, f"reachable P@b {goal}")
    for part_count in (1, 2, 3):
        (result,) = check_zones(network, network.properties, opening_zones_with_threads(part_count))
        assert isinstance(result.verdict, Holds) and result.verdict.reason == told
