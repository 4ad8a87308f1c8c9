"""Java programs from Maven: resolved once by `mvn`, and verified against pinned checksums.

Maven's own settings say which repositories it uses. The result is accepted only if it has exactly the
pinned files, each with the pinned checksum.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import file_digest
from importlib import resources
from pathlib import Path

from veristream.cache import cache_directory
from veristream.errors import EnvironmentFailure

PATIENCE_S = 900.0
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy-dependencies"


@dataclass(frozen=True, slots=True)
class Artifact:
    """The Maven coordinates of a program."""

    group: str
    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Bundle:
    """Artifacts that run together; `pins` names the file of checksums.

    Their dependencies belong to them, unless the artifacts are to be had `alone`.
    """

    name: str
    artifacts: tuple[Artifact, ...]
    pins: str
    alone: bool = False


def resolve(bundle: Bundle) -> Path:
    """Returns the folder with the bundle's jars: downloads them if needed, and always verifies them."""
    folder = cache_directory(bundle.name)
    if not folder.is_dir():
        _fetch(bundle, folder)
    check(folder, read_pins(bundle.pins))
    return folder


def is_there(bundle: Bundle) -> bool:
    """Whether a bundle was downloaded before."""
    return cache_directory(bundle.name).is_dir()


def _fetch(bundle: Bundle, folder: Path) -> None:
    """Downloads the jars with Maven; the folder appears complete or not at all."""
    maven = shutil.which("mvn")
    if maven is None:
        raise EnvironmentFailure(
            f"downloading {bundle.name} needs Maven, and `mvn` is not on the PATH",
            "install Maven, for example the Debian package `maven`",
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{bundle.name}-", dir=folder.parent) as place:
        fresh = Path(place)
        (fresh / "pom.xml").write_text(write_pom(bundle), encoding="utf-8")
        scope, target = "-DincludeScope=runtime", f"-DoutputDirectory={fresh / 'jars'}"
        _run([maven, "-B", "-q", "-f", str(fresh / "pom.xml"), COPY, scope, target], bundle.name)
        if not folder.is_dir():  # another process may have been faster
            (fresh / "jars").rename(folder)


def _run(command: Sequence[str], name: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired as late:
        raise EnvironmentFailure(
            f"Maven did not download {name} within {PATIENCE_S:.0f} s",
            "check that it can reach its repository",
        ) from late
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if line.startswith("[ERROR]")]
        said = lines[0].removeprefix("[ERROR]").strip() if lines else f"exit {done.returncode}"
        raise EnvironmentFailure(
            f"Maven cannot download {name}: {said}", "check that it can reach its repository"
        )


def write_pom(bundle: Bundle) -> str:
    """Writes a Maven project that only depends on the artifacts."""
    without = (
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    )
    depends = "\n".join(
        f"<dependency><groupId>{each.group}</groupId><artifactId>{each.name}</artifactId>"
        f"<version>{each.version}</version>{without if bundle.alone else ''}</dependency>"
        for each in bundle.artifacts
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>veristream</groupId>"
        f"<artifactId>{bundle.name}</artifactId><version>1</version><packaging>pom</packaging>\n"
        f"<dependencies>\n{depends}\n</dependencies></project>\n"
    )


def read_pins(name: str) -> dict[str, str]:
    """Reads file names and SHA-256 checksums in the format of `sha256sum`."""
    text = resources.files("veristream.brokers").joinpath(name).read_text(encoding="utf-8")
    pairs = (line.split() for line in text.splitlines())
    return {file: digest for digest, file in pairs}


def check(folder: Path, pins: dict[str, str]) -> None:
    """Raises EnvironmentFailure unless the folder has exactly the pinned files."""
    found = {path.name: path for path in folder.iterdir()}
    wrong = [name for name in sorted(pins.keys() & found.keys()) if _digest(found[name]) != pins[name]]
    for problem, names in (
        ("is missing", sorted(pins.keys() - found.keys())),
        ("is not pinned", sorted(found.keys() - pins.keys())),
        ("has the wrong checksum", wrong),
    ):
        if names:
            raise EnvironmentFailure(
                f"{folder / names[0]} {problem}", f"delete {folder} to download it again"
            )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
