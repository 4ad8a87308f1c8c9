"""SPIN finds in every exported model what we find: as many states, and the same verdicts."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.peers.known import DEADLOCK, MODELS, SECONDS_MAX, TEMPORAL, explored, find, network, only
from tests.strategies import networks
from veristream.export.promela import to_promela
from veristream.ir.network import Network
from veristream.ir.property import Always, Property, Reachable
from veristream.library import check
from veristream.verdict import word
from veristream_testing import peers
from veristream_testing.peers import PeerRun, run_spin
from veristream_testing.states import Exploration, explore

pytestmark = [pytest.mark.peers, pytest.mark.usefixtures("spin")]

STATES_MAX = 5_000
FLAGS = ("-O0", "-DNOREDUCE", "-DNOBOUNDCHECK")
"""The models are small: compiling them fast saves more than running them fast."""


def test_there_are_models_to_compare() -> None:
    clean = [name for name in MODELS if not explored(name).failures]
    assert len(clean) >= 10
    assert TEMPORAL
    assert DEADLOCK


@pytest.mark.parametrize("name", MODELS)
def test_spin_counts_our_states(name: str) -> None:
    run = run_spin(to_promela(only(network(name))), timeout_s=SECONDS_MAX, cflags=FLAGS)
    compare(run, explored(name))


def compare(run: PeerRun, found: Exploration) -> None:
    if found.failures:
        assert run.verdict == "fault", run.output
        return
    assert run.verdict == "complete", run.output
    assert run.distinct_states == len(found.states)
    assert run.transitions == found.transitions


@pytest.mark.parametrize(("name", "claim"), DEADLOCK)
def test_spin_finds_our_deadlocks(name: str, claim: str) -> None:
    found = explored(name)
    model = only(network(name), find(name, claim))
    run = run_spin(to_promela(model), deadlocks=True, timeout_s=SECONDS_MAX, cflags=FLAGS)
    if not found.failures:
        assert run.verdict == ("deadlock" if found.deadlocks else "complete"), run.output


@pytest.mark.parametrize(("name", "claim"), TEMPORAL)
def test_spin_has_our_verdict_of_formulas(name: str, claim: str) -> None:
    verdict(network(name), find(name, claim))


@pytest.mark.parametrize("name", ["philosophers", "router"])
@pytest.mark.parametrize("kind", [Always, Reachable])
def test_spin_has_our_verdict_of_states(name: str, kind: type) -> None:
    for claim in network(name).properties:
        if isinstance(claim.claim, kind):
            verdict(network(name), claim)


def verdict(model: Network, claim: Property) -> None:
    (ours,) = check(only(model, claim))
    run = run_spin(to_promela(model, claim), ltl=True, timeout_s=SECONDS_MAX, cflags=FLAGS)
    violated = word(ours.verdict) == ("holds" if isinstance(claim.claim, Reachable) else "violated")
    assert run.verdict == ("violated" if violated else "complete"), run.output


def test_two_workers_count_our_states() -> None:
    run = run_spin(to_promela(only(network("router"))), workers=2, timeout_s=SECONDS_MAX, cflags=FLAGS)
    compare(run, explored("router"))


def test_a_search_out_of_time_is_unfinished(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is for all of it, but here the compiler is given as long as it takes on a busy machine."""
    call = peers._call
    monkeypatch.setattr(peers, "_call", lambda words, place, _, tool: call(words, place, SECONDS_MAX, tool))
    endless = """
    int x; active proctype p() { do :: d_step { x < 2000000000 -> x = x + 1 } od }
    """
    run = run_spin(endless, timeout_s=8.0, cflags=FLAGS)
    assert run.verdict == "unfinished"


@settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data())
def test_spin_counts_the_states_of_random_networks(data: st.DataObject) -> None:
    model = data.draw(networks())
    found = explore(model, STATES_MAX)
    if found.complete:
        compare(run_spin(to_promela(model), hash_bits=18, timeout_s=SECONDS_MAX, cflags=FLAGS), found)
