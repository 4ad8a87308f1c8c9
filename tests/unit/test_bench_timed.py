"""What the bench of timed automata measures is the search that users get."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import veristream as vs

ROOT = Path(__file__).resolve().parents[2]
EXCLUSION = "A[] forall (i : id_t) forall (j : id_t) P(i).cs && P(j).cs imply i == j"


def test_one_case_is_the_check_of_its_query() -> None:
    case = {"name": "three", "model": "uppaal/fischer.xml", "query": EXCLUSION, "constants": {"N": 3}}
    command = [sys.executable, str(ROOT / "bench" / "timed.py"), "--one", json.dumps(case)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    (result,) = vs.check(ROOT / "models" / "uppaal" / "fischer.xml", [EXCLUSION], constants={"N": 3})
    assert found["verdict"] == "holds"
    assert (found["zones"], found["steps"]) == (result.effort.states, result.effort.transitions)
    assert min(found["compile_seconds"], found["search_seconds"]) > 0
