"""The figures and ratios of the local bench follow from what the tools print."""

from __future__ import annotations

import pytest

from bench import local
from bench.local import Figure
from veristream_testing.peers import read_spin

REPORT = """
State-vector 76 byte, depth reached 115785, errors: 0
    1024 states, stored
    2000 states, matched
    3024 transitions (= stored+matched)

Stats on memory usage (in Megabytes):
    0.500	equivalent memory usage for states (stored*(State-vector + overhead))
{actual}  128.000	memory used for hash table (-w24)
  190.879	total actual memory usage

pan: elapsed time 1.5 seconds
"""
ACTUAL = "    0.250	actual memory usage for states (compression: 50.00%)\n"


@pytest.mark.parametrize(("actual", "stored"), [(ACTUAL, 256.0), ("", 512.0)])
def test_bytes_per_state_are_those_that_spin_stores(actual: str, stored: float) -> None:
    run = read_spin(REPORT.format(actual=actual), 2.0, 1.75)
    assert local.spin_bytes_per_state(run) == 512.0
    assert local.spin_stored_bytes_per_state(run) == stored
    assert local.used_figure("spin, as used", run) == Figure(
        "spin, as used", 1, 1024, 3023, 2.0, 1.5, 3.75, stored
    )


def figure(
    tool: str, workers: int, seconds: float, memory: float | None = None, states: int = 100
) -> Figure:
    return Figure(tool, workers, states, 300, 1.0, seconds, seconds + 1, memory)


def test_ratios_compare_all_states_with_all_and_time_with_the_best_run_as_used() -> None:
    ratios = local.ratios_of(
        [
            *(figure("veristream", 1, 2.0, 20), figure("veristream", 2, 1.0, 20)),
            *(figure("spin", 1, 8.0, 50), figure("spin", 2, 5.0, 50)),
            *(figure("tlc", 1, 30.0), figure("tlc", 2, 20.0)),
            *(figure("spin, as used", 1, 4.0, 40, 25), figure("spin, -DCOLLAPSE", 1, 6.0, 16, 25)),
            *(
                figure("spin, as used, by hand", 1, 1.0, 40, 5),
                figure("spin, -DCOLLAPSE, by hand", 1, 3.0, 32, 5),
            ),
        ]
    )
    assert ratios == {
        "over_spin": 4.0,
        "over_tlc": 15.0,
        "two_workers_over_one": 2.0,
        "two_workers_over_spin": 5.0,
        "two_workers_over_tlc": 20.0,
        "whole_run_over_spin": 3.0,
        "memory_over_spin": 0.4,
        "search_over_spin_as_used": 0.5,
        "memory_over_spin_as_used": 1.25,
    }
