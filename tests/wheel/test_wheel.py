"""The wheel in an empty virtual environment, outside of any checkout: everything works that a user types.

Building takes a minute or two, since it compiles the search loops. Installing takes half a minute where pip
has fetched the packages before, a few minutes where it has not. Needs a Java, for Spark.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from veristream.expected import find_known, read_known
from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.native.build import modules_with_loops
from veristream.native.declared import entries_of

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("wheel")]

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 1200
KEPT = ("PATH", "JAVA_HOME", "LANG", "LC_ALL", "TMPDIR", "VERISTREAM_PORTS")
"""What a command sees of the environment of the tests: nothing that leads to a checkout or a home."""


@dataclass(frozen=True, slots=True)
class Installed:
    """The wheel's commands, run in a folder of their own."""

    place: Path

    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        return kept | {"HOME": str(self.place / "home"), "SPARK_LOCAL_IP": "127.0.0.1"}

    def run(self, *words: object, given: str = "") -> subprocess.CompletedProcess[str]:
        """Runs a program of the virtual environment to its end."""
        program, *rest = map(str, words)
        return subprocess.run(
            [str(self.place / "venv" / "bin" / program), *rest],
            cwd=self.place / "work",
            env=self.environment(),
            input=given,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )

    def do(self, *words: object, given: str = "", code: int = 0) -> str:
        """What `veristream WORDS` prints; it must end with this exit code."""
        done = self.run("veristream", *words, given=given)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    _pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    place = tmp_path_factory.mktemp("installed")
    assert not place.is_relative_to(ROOT)
    for folder in ("work", "home"):
        (place / folder).mkdir()
    subprocess.run([sys.executable, "-m", "venv", str(place / "venv")], check=True, timeout=TIMEOUT_S)
    _pip(str(place / "venv" / "bin" / "python"), "install", f"{wheel}[kabis,spark]")
    return Installed(place)


def _pip(python: str, *words: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr


def _committed(folder: str) -> set[str]:
    """The files below a folder of the checkout that are, or would be, committed, relative to it."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", folder]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = (Path(line) for line in listed.splitlines())
    return {path.relative_to(folder).as_posix() for path in found if (ROOT / path).is_file()}


def test_the_package_and_the_models_are_in_it_and_nothing_else(wheel: Path) -> None:
    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    expected = {f"veristream/{name}" for name in _committed("src/veristream")}
    expected |= {f"veristream/models/{name}" for name in _committed("models")}
    modules = [name for name in modules_with_loops() if entries_of(import_module(name))]
    assert "veristream.search.reach.expand" in modules
    expected |= {f"veristream/native/compiled/{name}.o" for name in modules}
    assert len(names) == len(set(names))
    assert set(names) == expected


def test_it_is_installed_and_the_checkout_is_out_of_sight(installed: Installed) -> None:
    shown = installed.run("python", "-c", "import veristream, sys; print(veristream.__file__, *sys.path)")
    assert shown.returncode == 0, shown.stderr
    assert str(ROOT) not in shown.stdout
    assert shown.stdout.startswith(str(installed.place / "venv"))
    assert installed.run("python", "-m", "pip", "check").returncode == 0
    assert installed.run("python", "-c", "import numba").returncode != 0, "only a checkout compiles loops"


def test_models_are_listed_copied_and_checked(installed: Installed) -> None:
    listed = json.loads(installed.do("models", "--json"))["models"]
    assert [one["name"] for one in listed] == sorted(
        path.parent.name for path in (ROOT / "models").glob("*/expected.toml")
    )
    assert sum(len(one["models"]) for one in listed) == len(find_known(ROOT / "models"))
    installed.do("models", "kafka_intruder", "kafka_transactions", "--copy", "mine")
    work = installed.place / "work" / "mine"
    assert sorted(path.name for path in work.iterdir()) == [
        "kafka_intruder",
        "kafka_transactions",
        "library",
    ]
    for name in ("kafka_intruder", "kafka_transactions"):  # the one includes a file of the library
        _check_copy(installed, work / name)


def _check_copy(installed: Installed, folder: Path) -> None:
    """The properties of a folder's first model get the verdicts and counts that are expected."""
    known = read_known(folder)[0]
    constants = [word for name, value in known.constants.items() for word in ("-D", f"{name}={value}")]
    code = int(any(one.verdict == "violated" for one in known.expectations))
    words = ("check", known.path, *constants, "--no-reduction", "--json")
    checked = json.loads(installed.do(*words, code=code))
    found = {one["property"]: one for one in checked["results"]}
    for one in known.expectations:
        assert found[one.property]["verdict"] == one.verdict
        if one.states is not None and found[one.property]["trace"] is None:
            assert found[one.property]["states"] == one.states


def test_a_paper_is_reproduced(installed: Installed) -> None:
    verdicts = sum(len(model.expectations) for model in read_known(ROOT / "models" / "kafka"))
    assert installed.do("reproduce", "kafka").splitlines()[-1] == (
        f"4 models: {verdicts} of {verdicts} verdicts as expected"
    )


@pytest.fixture
def data(installed: Installed) -> Iterator[Path]:
    """The folder of a cluster whose parties are gone in the end, whatever happened."""
    folder = installed.place / "cluster"
    try:
        yield folder
    finally:
        if ClusterFolder(folder).exists():
            Cluster(ClusterFolder(folder)).stop()


def test_a_session(installed: Installed, data: Path) -> None:
    def kabis(*words: object, given: str = "") -> str:
        return installed.do("kabis", *words, "--data", data, given=given)

    assert "4 validators and 3 storage parties answer" in kabis("up", "--detach")
    kabis("topic", "create", "orders")
    produced = kabis("produce", "orders", given="two pears\nan apple\nnine figs\n")
    assert produced == "3 events acknowledged at orders-0 0 to 2\n"
    read = kabis("consume", "orders", "--from-beginning", "--max", 3, "--timeout", 60)
    assert read.splitlines() == ["two pears", "an apple", "nine figs"]
    audit: dict[str, Any] = json.loads(kabis("audit", "--master", "local[1]", "--json"))
    assert audit["checked"]["events"] == 3
    assert {kind: count for kind, count in audit["counts"].items() if count and kind != "phantom"} == {}
    assert len(Cluster(ClusterFolder(data)).find()) == 7
    kabis("down")
    assert Cluster(ClusterFolder(data)).find() == {}


def test_the_tour(installed: Installed) -> None:
    told = installed.do("tour", "--events", 400).splitlines()
    assert [line.split()[0] for line in told] == ["proved", "ran", "lied", "audited", "report:"]
    page = (installed.place / "work" / "report.html").read_text(encoding="utf-8")
    assert "<h2>Audited</h2>" in page
