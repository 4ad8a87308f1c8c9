"""TLC finds in every exported model what we find: as many states, and the same verdicts."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.peers.known import ALWAYS, DEADLOCK, MODELS, SECONDS_MAX, explored, find, network, only
from tests.strategies import networks
from veristream.export.tla import Exported, to_tla
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.property import Always
from veristream_testing.peers import PeerRun, run_tlc
from veristream_testing.states import Exploration, explore

pytestmark = [pytest.mark.peers, pytest.mark.usefixtures("tlc")]

STATES_MAX = 2_000


@pytest.mark.parametrize("name", MODELS)
def test_tlc_counts_our_states(name: str) -> None:
    run = run_tlc(to_tla(only(network(name)), "Model"), timeout_s=SECONDS_MAX)
    compare(run, explored(name))


def compare(run: PeerRun, found: Exploration) -> None:
    if found.failures:
        assert run.verdict == "fault", run.output
        return
    assert run.verdict == "complete", run.output
    assert run.distinct_states == len(found.states)


@pytest.mark.parametrize(("name", "claim"), DEADLOCK)
def test_tlc_finds_our_deadlocks(name: str, claim: str) -> None:
    found = explored(name)
    model = only(network(name), find(name, claim))
    run = run_tlc(to_tla(model, "Model"), deadlocks=True, timeout_s=SECONDS_MAX)
    if not found.failures:
        assert run.verdict == ("deadlock" if found.deadlocks else "complete"), run.output


@pytest.mark.parametrize("name", sorted({name for name, _ in ALWAYS if not explored(name).failures}))
def test_tlc_has_our_verdict_of_invariants(name: str) -> None:
    claims = [find(name, claim) for model, claim in ALWAYS if model == name]
    interpreter = Interpreter(network(name))
    holding = [
        one
        for one in claims
        if isinstance(one.claim, Always)
        and all(interpreter.holds(one.claim.condition, state) for state in explored(name).states)
    ]
    run = run_tlc(to_tla(only(network(name), *holding), "Model"), timeout_s=SECONDS_MAX)
    assert run.verdict == "complete", run.output
    for one in claims:
        if one not in holding:
            run = run_tlc(to_tla(only(network(name), one), "Model"), timeout_s=SECONDS_MAX)
            assert run.verdict == "violated", run.output


def test_two_workers_count_our_states() -> None:
    run = run_tlc(to_tla(only(network("router")), "Model"), workers=2, timeout_s=SECONDS_MAX)
    compare(run, explored("router"))


def test_a_search_out_of_time_is_unfinished() -> None:
    spec = "---- MODULE Endless ----\nEXTENDS Integers\nVARIABLE x\n"
    spec += "Init == x = 0\nNext == x' = x + 1\n====\n"
    run = run_tlc(Exported("Endless", spec, "INIT Init\nNEXT Next\n"), timeout_s=6.0)
    assert run.verdict == "unfinished"


@settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data())
def test_tlc_counts_the_states_of_random_networks(data: st.DataObject) -> None:
    model = data.draw(networks())
    found = explore(model, STATES_MAX)
    if found.complete:
        compare(run_tlc(to_tla(model, "Random"), timeout_s=SECONDS_MAX), found)
