"""TLC counts the states of every classic model as we do, and has our verdict of its invariants."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.actions.known import NAMES, RUNS, Run
from veristream.export.tla import to_tla
from veristream.ir.network import Network
from veristream.ir.property import Always
from veristream_testing.peers import PeerRun, run_tlc

pytestmark = [pytest.mark.peers, pytest.mark.usefixtures("tlc")]

SECONDS_MAX = 300.0


@pytest.mark.parametrize("run", RUNS, ids=NAMES)
def test_tlc_counts_the_states_of_classics(run: Run) -> None:
    """With the invariants that hold; one that is violated would end the search early."""
    found = searched(run.load(), invariants(run, "holds"))
    assert found.verdict == "complete", found.output
    assert found.distinct_states == run.states


def searched(network: Network, names: list[str]) -> PeerRun:
    kept = tuple(one for one in network.properties if one.name in names)
    return run_tlc(to_tla(replace(network, properties=kept), "Model"), timeout_s=SECONDS_MAX)


def invariants(run: Run, verdict: str) -> list[str]:
    """The names of the model's `@always` properties with that verdict."""
    return [
        one.name
        for one in run.load().properties
        if isinstance(one.claim, Always) and run.properties[one.name].verdict == verdict
    ]


BROKEN = [(run, name) for run in RUNS for name in invariants(run, "violated")]


@pytest.mark.parametrize(("run", "name"), BROKEN, ids=[f"{run.name}-{name}" for run, name in BROKEN])
def test_tlc_violates_the_same_invariants(run: Run, name: str) -> None:
    found = searched(run.load(), [name])
    assert found.verdict == "violated", found.output
