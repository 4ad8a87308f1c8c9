"""The driver: killed and resumed, short of memory, and what it shows in Spark's user interface."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark.cluster import ROOT, Ended, Standalone, run, veristream
from tests.spark.conftest import LOCAL
from tests.spark.dying import depth_in

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

MODEL = ("check", "models/philosophers/philosophers.net", "-D", "ORDERED=1", "-p", "no_deadlock", "--json")
KILLED_AT = (22, 27, 32)
"""Depths of the checkpoints that the driver is killed after."""
DEPTH = 37


def _result(ended: Ended) -> dict[str, Any]:
    assert ended.told == ""
    (found,) = json.loads(ended.output)["results"]
    return dict(found)


def _die_after(words: list[str], folder: Path, depth: int) -> None:
    """Runs the command, which kills itself once its checkpoint is that deep."""
    script = str(ROOT / "tests/spark/dying.py")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    ended = run([sys.executable, script, str(folder), str(depth), *words], environment)
    assert (ended.code, ended.output) == (-signal.SIGKILL, ""), ended.told
    assert depth <= depth_in(folder) < DEPTH


@pytest.mark.usefixtures("java")
def test_a_killed_driver_is_resumed(tmp_path: Path) -> None:
    large = [*MODEL, "-D", "N=13"]
    on_spark = [*large, "--engine", "spark", "--master", LOCAL, "--parts", "2", "--checkpoint-seconds", "0"]
    where = "--checkpoint"
    for depth in KILLED_AT:
        _die_after([*on_spark, where, str(tmp_path)], tmp_path, depth)
        where = "--resume"
    resumed = veristream(*on_spark, where, str(tmp_path))
    here = veristream(*large, "--no-reduction")
    assert (resumed.code, here.code) == (0, 0)
    keys = ("property", "verdict", "states", "transitions", "depth")
    assert [_result(resumed)[key] for key in keys] == [_result(here)[key] for key in keys]
    assert (_result(resumed)["states"], _result(resumed)["depth"]) == (3**13, DEPTH)


@pytest.mark.usefixtures("java")
def test_a_search_that_outgrows_this_machine_is_handed_over() -> None:
    words = (*MODEL, "-D", "N=12", "--max-memory-mib")
    # States take less memory in a search that cannot be handed over.
    alone = veristream(*words, "6", "--no-reduction")
    assert alone.code == 4
    assert _result(alone)["reason"] == (
        "the memory budget of 6 MiB is used up (--max-memory-mib raises it;"
        " --engine spark --spill DIR uses a cluster's memory and disks)"
    )
    shared = veristream(*words, "10", "--master", LOCAL)
    assert (shared.code, shared.told) == (0, "")
    document = json.loads(shared.output)
    assert (document["engine"], document["results"][0]["states"]) == ("spark", 3**12)


def test_settings_of_spark_name_a_cluster_to_hand_over_to(cluster: Standalone) -> None:
    words = (*MODEL, "-D", "N=12", "--max-memory-mib", "10")
    shared = veristream(*words, environment={**cluster.environment, "MASTER": cluster.master})
    assert (shared.code, shared.told) == (0, "")
    document = json.loads(shared.output)
    assert (document["engine"], document["results"][0]["states"]) == ("spark", 3**12)


def test_spark_names_the_model_that_a_job_is_for(cluster: Standalone) -> None:
    script = str(ROOT / "tests/spark/described.py")
    environment = {**cluster.environment, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    ended = run([sys.executable, script, cluster.master], environment)
    assert (ended.code, ended.told) == (0, "")
    assert json.loads(ended.output) == {"description": "veristream: philosophers", "status": "RUNNING"}
