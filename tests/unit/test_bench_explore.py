"""What the benches measure is a whole exploration, of models in Python as of networks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from veristream.library import load
from veristream_testing.states import explore

ROOT = Path(__file__).resolve().parents[2]

# An invariant, beside properties that a peer is not given; the workers are alike, which must not matter.
MODEL = """
from veristream.actions import *

JOBS = constant(2)
waiting: Int[0, JOBS] = JOBS

class Worker(Role, count=2, symmetric=True):
    done: Int[0, JOBS] = 0

    @action(fair="weak")
    def work(self):
        global waiting
        require(waiting > 0)
        waiting -= 1
        self.done += 1

@always
def nothing_is_lost():
    return waiting + sum(w.done for w in Worker) == JOBS

@eventually
def all_done():
    return waiting == 0

@exists
def alone():
    return any(w.done == JOBS for w in Worker)
"""


@pytest.mark.parametrize(("jobs", "states"), [(2, 6), (4, 15)])
def test_a_model_in_python_is_explored_in_full(tmp_path: Path, jobs: int, states: int) -> None:
    path = tmp_path / "workers.py"
    path.write_text(MODEL, encoding="utf-8")
    command = [sys.executable, str(ROOT / "bench" / "_explore.py"), str(path), "1", f"JOBS={jobs}"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    oracle = explore(load(path, {"JOBS": jobs}), 1000)
    assert found["states"] == len(oracle.states) == states
    assert found["transitions"] == oracle.transitions
