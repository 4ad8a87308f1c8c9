"""Whatever is lost on the way, the verdict and the counts stay; what is missing is told plainly."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.parity.test_shared import told
from tests.spark import lossy
from tests.spark.cluster import ROOT, Ended, Standalone, run, veristream
from tests.strategies import networks, properties
from veristream.ir.property import Property
from veristream.library import load
from veristream.search import local
from veristream.search.limits import Limits, SparkOptions, silent
from veristream.search.safety import SafetyClaim
from veristream.search.spark import engine
from veristream.verdict import Unknown, word

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

DEPTHS = (3, 14, 25)
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
        here = local.check(network, wanted, Limits(states_max=3000)) if wanted else ()
        if not wanted or any(isinstance(one.verdict, Unknown) and not one.verdict.fault for one in here):
            return  # nothing to ask, or too large
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


@pytest.fixture
def bare(cluster: Standalone, tmp_path: Path) -> dict[str, str]:
    """The environment of a driver whose workers' Python has what we need, but not us."""
    packages = sysconfig.get_path("purelib")
    python = tmp_path / "python"
    base = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}" exec "{base}" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    script = "import numba, lark; import veristream"
    tried = subprocess.run([python, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert tried.stderr.endswith("ModuleNotFoundError: No module named 'veristream'\n")
    return {**cluster.environment, "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": sys.executable}


def test_a_cluster_without_us_is_told(cluster: Standalone, bare: dict[str, str]) -> None:
    ended = veristream(*ON_SPARK, "--master", cluster.master, "--parts", "2", environment=bare)
    assert (ended.code, ended.output) == (3, "")
    assert ended.told == (
        "error: the Python of the cluster's workers has no veristream\n"
        "hint: install it there, or ship it:"
        " PYSPARK_SUBMIT_ARGS='--py-files veristream.zip pyspark-shell'\n"
    )


def _archive(folder: Path) -> Path:
    """Our package as an archive, as in the wheel."""
    path = folder / "veristream.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted((ROOT / "src").rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(ROOT / "src"))
    return path


def test_we_ship_to_a_cluster_without_us(cluster: Standalone, bare: dict[str, str], tmp_path: Path) -> None:
    shipped = {**bare, "PYSPARK_SUBMIT_ARGS": f"--py-files {_archive(tmp_path)} pyspark-shell"}
    words = (*ON_SPARK, "--master", cluster.master, "--parts", "2")
    _require_verdict(veristream(*words, environment=shipped))


def test_spark_submit_brings_us(cluster: Standalone, bare: dict[str, str], tmp_path: Path) -> None:
    main = tmp_path / "main.py"
    main.write_text("from veristream.cli import main\n\nmain()\n", encoding="utf-8")
    submit = str(Path(cluster.environment["SPARK_HOME"]) / "bin" / "spark-submit")
    words = ["--master", cluster.master, "--py-files", str(_archive(tmp_path)), str(main), *ON_SPARK]
    ended = run([submit, *words, "--parts", "2"], bare)
    _require_verdict(Ended(ended.code, ended.output, ""))  # what spark-submit itself tells is its own


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=100m", "none", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small file system is not permitted here")
    try:
        words = (*ON_SPARK, "--master", "local[2]", "--parts", "2", "--spill", str(folder))
        ended = veristream(*words)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
    assert (ended.code, ended.output) == (3, "")
    error, hint = ended.told.splitlines()
    assert error.startswith("error: a worker's disk is full ([Errno 28] No space left on device)")
    assert "explored so far: " in error and " states, " in error
    assert hint.startswith("hint: make room, or give --spill")
