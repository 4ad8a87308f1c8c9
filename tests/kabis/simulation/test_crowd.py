"""Validators under a flood, some of them of a newer version: no seed breaks a property."""

from __future__ import annotations

import os

import pytest

from veristream_testing.simulation.crowd import run
from veristream_testing.simulation.scenario import draw_scenario

SEEDS = int(os.environ.get("VERISTREAM_SEEDS", "200")) // 10
PARTS = 5


@pytest.mark.parametrize("part", range(PARTS))
def test_no_seed_breaks_a_property(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        violation = run(draw_scenario(seed)).violation
        assert violation is None, f"{violation}\n{draw_scenario(seed)}"
