"""Losses of processes change neither verdicts nor counts, and missing resources are reported."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.ltl.test_random import properties as temporal_properties
from tests.missing import is_missing
from tests.parity.test_shared import told
from tests.spark import lossy
from tests.spark.cluster import ROOT, Ended, Standalone, run, veristream
from tests.strategies import networks, properties
from veristream.ir.property import Property
from veristream.library import load
from veristream.search import engine as local
from veristream.search.limits import Limits, SparkOptions, silent
from veristream.search.safety import SafetyClaim
from veristream.search.spark.engine import engine
from veristream.verdict import Unknown, word

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

DEPTHS = (3, 14, 25)
ALONE, ALONE_AS_ROOT = ("unshare", "--mount"), ("unshare", "--map-root-user", "--mount")
MODEL = ("check", "models/philosophers/philosophers.net", "-D", "ORDERED=1", "-D", "N=12")
ON_SPARK = (*MODEL, "-p", "no_deadlock", "--json", "--engine", "spark")


@pytest.mark.usefixtures("at_once")
def test_a_hundred_random_networks_agree(session: SparkSession) -> None:
    check = engine(lambda: session, SparkOptions(parts=2, start_states=0))
    compared = []

    @settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(st.data())
    def agree(data: st.DataObject) -> None:
        network = data.draw(networks())
        drawn = data.draw(st.lists(properties(network), min_size=1, max_size=3))
        if len(compared) == 100:
            return
        wanted = [Property(f"p{i}", one.claim) for i, one in enumerate(drawn)]
        wanted = [one for one in wanted if isinstance(one.claim, SafetyClaim)]
        if not wanted:
            return
        wanted.append(data.draw(temporal_properties(network)))
        here = local.check(network, wanted, Limits(states_max=3000))
        if any(isinstance(one.verdict, Unknown) and not one.verdict.fault for one in here):
            return  # too large
        there = check(network, wanted, Limits(), silent)
        assert [word(one.verdict) for one in there] == [word(one.verdict) for one in here]
        for one, other in zip(there, here, strict=True):
            if one.verdict.trace is None:
                assert told([one]) == told([other])
        compared.append(network)

    agree()
    assert len(compared) == 100


def _lossy(master: str, what: str, environment: dict[str, str]) -> None:
    command = [sys.executable, str(ROOT / "tests/spark/lossy.py"), master, what, *map(str, DEPTHS)]
    ended = run(command, environment, seconds=400)
    assert (ended.code, ended.told) == (0, "")
    network = load(lossy.MODEL, lossy.CONSTANTS)
    wanted = [one for one in network.properties if one.name == lossy.PROPERTY]
    expected = json.loads(json.dumps(told(local.check(network, wanted, Limits()))))
    assert json.loads(ended.output) == [{"ended": 1, "found": expected}] * len(DEPTHS)


def _with_source(environment: dict[str, str] | os._Environ[str]) -> dict[str, str]:
    return {**environment, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}


@pytest.mark.usefixtures("java")
def test_a_python_worker_on_this_machine_is_killed() -> None:
    _lossy("local[2]", "python", _with_source(os.environ))


@pytest.mark.parametrize("what", ["python", "executor"])
def test_a_process_of_a_cluster_is_killed(cluster: Standalone, what: str) -> None:
    _lossy(cluster.master, what, _with_source(cluster.environment))


def _require_verdict(ended: Ended) -> None:
    assert (ended.code, ended.told) == (0, "")
    (found,) = json.loads(ended.output)["results"]
    assert (found["verdict"], found["states"]) == ("holds", 3**12)


def test_a_cluster_explores(cluster: Standalone) -> None:
    words = (*ON_SPARK, "--master", cluster.master, "--parts", "2")
    _require_verdict(veristream(*words, environment=cluster.environment))


def _on_a_small_disk(folder: Path) -> list[str]:
    """Returns a command prefix that mounts 100 MiB at the folder, visible to that command only."""
    mount = f'mount -t tmpfs -o size=100m none "{folder}" && exec "$@"'
    if shutil.which("unshare") is None:
        is_missing("unshare is not installed")
    ways = [[*unshare, "sh", "-c", mount, "sh"] for unshare in (ALONE, ALONE_AS_ROOT)]
    permitted = [way for way in ways if not subprocess.run([*way, "true"], capture_output=True).returncode]
    if not permitted:
        is_missing("mounting a small file system is not permitted here")
    return permitted[0]


def _require_full_disk(ended: Ended, reason: str) -> None:
    assert (ended.code, ended.output) == (3, "")
    error, hint = ended.told.splitlines()
    assert error.startswith(f"error: a worker's disk is full ({reason}")
    assert "explored so far: " in error and " states, " in error
    assert hint.startswith("hint: free disk space, or give --spill")


@pytest.mark.usefixtures("java")
def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    words = (*ON_SPARK, "--master", "local[2]", "--parts", "2", "--spill", str(tmp_path))
    command = [*_on_a_small_disk(tmp_path), sys.executable, "-m", "veristream.cli", *words]
    _require_full_disk(run(command, os.environ), "[Errno 28] No space left on device)")


@pytest.mark.usefixtures("java")
def test_a_checkpoint_that_does_not_fit_is_reported(tmp_path: Path) -> None:
    words = (*ON_SPARK, "--master", "local[2]", "--parts", "2", "--checkpoint", str(tmp_path))
    command = [sys.executable, "-m", "veristream.cli", *words, "--checkpoint-seconds", "0"]
    # No file may be larger than 64 blocks: 32 KiB, or 64 KiB if the shell counts in kilobytes.
    limited = ["sh", "-c", 'ulimit -f 64 && exec "$@"', "sh", *command]
    _require_full_disk(run(limited, os.environ), "")
