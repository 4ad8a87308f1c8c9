"""What the bench of timed automata measures is the search that users get."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import veristream as vs

ROOT = Path(__file__).resolve().parents[2]
EXCLUSION = "A[] forall (i : id_t) forall (j : id_t) P(i).cs && P(j).cs imply i == j"

SAFE = "A[] not (exists (i : train_t) Train(i).over) or not (exists (j : car_t) Car(j).on)"
FISCHER = {"model": "uppaal/fischer.xml", "query": EXCLUSION, "constants": {"N": 3}, "folder": "models"}
CROSSING = {
    "model": "crossing.xta",
    "query": SAFE,
    "constants": {"TRAINS": 1, "CARS": 1},
    "folder": "bench/models/timed",
}


@pytest.mark.parametrize(
    "case",
    [pytest.param(FISCHER, id="fischer"), pytest.param(CROSSING, id="crossing", marks=pytest.mark.long)],
)
def test_one_case_is_the_check_of_its_query(case: dict[str, Any]) -> None:
    wanted = json.dumps({"name": "case", **case})
    command = [sys.executable, str(ROOT / "bench" / "timed.py"), "--one", wanted]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    path = ROOT / case["folder"] / case["model"]
    (result,) = vs.check(path, [case["query"]], constants=case["constants"])
    assert found["verdict"] == "holds"
    assert (found["zones"], found["steps"]) == (result.effort.states, result.effort.transitions)
    assert min(found["compile_seconds"], found["search_seconds"]) > 0
