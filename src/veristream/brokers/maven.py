"""Java programs from Maven: resolved once by Maven's own client, and held against known checksums.

Where Maven looks is the business of the machine's own settings. What it brings is believed only if every
file has the checksum that this repository pins, and there is no file more and none less.
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

from veristream.brokers.cache import cache_directory
from veristream.errors import EnvironmentFailure

PATIENCE_S = 900.0
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy-dependencies"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A program in Maven's terms."""

    group: str
    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Bundle:
    """Artifacts that run together with all that they need; `pins` is the file of their checksums here."""

    name: str
    artifacts: tuple[Artifact, ...]
    pins: str


def resolve(bundle: Bundle) -> Path:
    """The folder with the bundle's jars, fetched if they are not there yet, and checked in any case."""
    folder = cache_directory(bundle.name)
    if not folder.is_dir():
        _fetch(bundle, folder)
    check(folder, read_pins(bundle.pins))
    return folder


def _fetch(bundle: Bundle, folder: Path) -> None:
    """Has Maven copy the jars beside the folder, which appears whole or not at all."""
    maven = shutil.which("mvn")
    if maven is None:
        raise EnvironmentFailure(
            f"{bundle.name} is fetched by Maven, and `mvn` is not on the path",
            "install Maven, for instance the Debian package `maven`",
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
            f"Maven did not bring {name} within {PATIENCE_S:.0f} s", "see whether it reaches its repository"
        ) from late
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if line.startswith("[ERROR]")]
        said = lines[0].removeprefix("[ERROR]").strip() if lines else f"exit {done.returncode}"
        raise EnvironmentFailure(
            f"Maven does not bring {name}: {said}", "see whether it reaches its repository; run it by hand"
        )


def write_pom(bundle: Bundle) -> str:
    """A project that depends on the artifacts and is nothing besides."""
    depends = "\n".join(
        f"<dependency><groupId>{each.group}</groupId><artifactId>{each.name}</artifactId>"
        f"<version>{each.version}</version></dependency>"
        for each in bundle.artifacts
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>veristream</groupId>"
        f"<artifactId>{bundle.name}</artifactId><version>1</version><packaging>pom</packaging>\n"
        f"<dependencies>\n{depends}\n</dependencies></project>\n"
    )


def read_pins(name: str) -> dict[str, str]:
    """File names and their SHA-256, as `sha256sum` writes them."""
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
        ("has another checksum than it should", wrong),
    ):
        if names:
            raise EnvironmentFailure(
                f"{folder / names[0]} {problem}", f"remove {folder}, so that it is fetched again"
            )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
