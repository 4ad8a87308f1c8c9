"""The consensus under faults: no seed breaks a property, and the seeds do contain the faults.

`VERISTREAM_SEEDS` says how many. A failure names its seed; `run(draw_scenario(seed), tracing=True)`
replays it.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from veristream_testing.simulation.consensus import Outcome, run
from veristream_testing.simulation.scenario import STRATEGIES, Crash, Mute, Partition, draw_scenario

SEEDS = int(os.environ.get("VERISTREAM_SEEDS", "200"))
PARTS = 20


@pytest.mark.parametrize("part", range(PARTS))
def test_no_seed_breaks_a_property(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        scenario = draw_scenario(seed)
        violation = run(scenario).violation
        assert violation is None, f"{violation}\n{scenario}"


def test_a_seed_replays() -> None:
    def replay(seed: int) -> Outcome:
        return run(draw_scenario(seed), tracing=True)

    for seed in (3, 14, 15):
        first = replay(seed)
        assert first == replay(seed)
        assert len(first.trace) > first.inputs / 2


def test_the_seeds_contain_every_fault() -> None:
    scenarios = [draw_scenario(seed) for seed in range(200)]
    strategies = Counter(strategy for scenario in scenarios for _, strategy in scenario.byzantine)
    faults = Counter(type(fault) for scenario in scenarios for fault in scenario.faults)
    assert set(strategies) == set(STRATEGIES) and min(strategies.values()) >= 5
    assert set(faults) == {Crash, Mute, Partition} and min(faults.values()) >= 20
    assert sum(scenario.drop > 0 for scenario in scenarios) >= 20
    assert sum(scenario.duplicate > 0 for scenario in scenarios) >= 20
    assert {scenario.size for scenario in scenarios} == {4, 7}


def test_the_faults_have_effects() -> None:
    outcomes = [run(draw_scenario(seed)) for seed in range(40)]
    assert sum(outcome.restarts for outcome in outcomes) >= 5
    assert sum(outcome.conflicts for outcome in outcomes) >= 20
    assert sum(outcome.refused for outcome in outcomes) >= 20
    assert max(outcome.rounds for outcome in outcomes) >= 5
