"""Explorations through a Spark Connect server: the same barrier stage, through another interface."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.missing import is_missing
from tests.spark.cluster import ROOT, _wait_for, veristream
from veristream.kabis.wire.ports import draw_ports

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

MODEL = ("check", "models/philosophers/philosophers.net", "-D", "ORDERED=1", "-D", "N=12")
ON_SPARK = (*MODEL, "-p", "no_deadlock", "--json", "--engine", "spark", "--parts", "2")


@pytest.fixture(scope="module")
def server(java: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server on two cores of this machine, started with PySpark's own script."""
    import pyspark

    try:
        from pyspark.sql.connect.utils import check_dependencies

        check_dependencies()
    except ImportError as missing:
        is_missing(str(missing))
    home, folder = Path(pyspark.__file__).parent, tmp_path_factory.mktemp("connect")
    (port,) = draw_ports(1)
    environment = {
        **os.environ,
        "JAVA_HOME": str(java),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOG_DIR": str(folder),
        "SPARK_PID_DIR": str(folder),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT / "src"),
    }
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    command = [str(home / "sbin" / "start-connect-server.sh"), "--wait", "--master", "local[2]"]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen(
            ["bash", *command], env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        _wait_for(port)
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, 15)
        process.wait(timeout=30)


def test_a_server_explores(server: str) -> None:
    ended = veristream(*ON_SPARK, "--master", server, seconds=300)
    assert (ended.code, ended.told) == (0, "")
    (found,) = json.loads(ended.output)["results"]
    assert (found["verdict"], found["states"], found["transitions"]) == ("holds", 3**12, 4251528)


def test_parts_that_a_server_has_no_cores_for_are_refused(server: str) -> None:
    ended = veristream(*ON_SPARK[:-1], "3", "--master", server, seconds=300)
    assert (ended.code, ended.output) == (3, "")
    assert ended.told.startswith("error: 3 parts need 3 cores at once, but local[2] offers 2\n")


def test_shuffles_are_refused_with_a_server(server: str) -> None:
    ended = veristream(*ON_SPARK, "--exchange", "shuffle", "--master", server, seconds=300)
    assert (ended.code, ended.output) == (3, "")
    assert ended.told == (
        "error: Spark Connect has no RDDs, which --exchange shuffle needs\n"
        "hint: omit --exchange shuffle to use sockets, or give a --master that is not sc://\n"
    )


def test_a_missing_server_is_reported() -> None:
    ended = veristream(*ON_SPARK, "--master", "sc://127.0.0.1:1")
    assert (ended.code, ended.output) == (3, "")
    assert ended.told.startswith("error: no Spark Connect server answers at sc://127.0.0.1:1 ([Errno 111]")
