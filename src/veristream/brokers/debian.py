"""Programs from the packages of this system (Debian), unpacked into the cache without root.

apt verifies the signature of the lists of packages, and every package against its checksum in them. The
lists of this system are used if they have the packages; otherwise, fresh ones are fetched into a folder
of our own. Nothing is installed, and no service is started.

    CACHE/NAME/packages.txt     name and version of what was unpacked; written last
    CACHE/NAME/usr/...          the programs
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from veristream.cache import cache_directory
from veristream.errors import EnvironmentFailure

NOTE = "packages.txt"
PATIENCE_S = 600.0
TOOLS = ("apt-get", "dpkg-deb", "dpkg-query")
REFUSE = (
    *("-o", "APT::Get::AllowUnauthenticated=false"),
    *("-o", "Acquire::AllowInsecureRepositories=false"),
    *("-o", "Acquire::AllowWeakRepositories=false"),
)
"""Whatever the system's settings permit, packages without a valid signature are refused."""


@dataclass(frozen=True, slots=True)
class Package:
    """A package and its version, as apt writes them."""

    name: str
    version: str


def _accept(packages: Sequence[Package]) -> None:
    """Accepts whatever the system has."""


def _leave(root: Path, target: Path) -> None:
    """Changes nothing: the programs run from any place."""


@dataclass(frozen=True, slots=True)
class Collection:
    """Packages that run together from the folder `name` of the cache; `title` is what people call them.

    Packages whose names begin with one of `own` are unpacked even if they are installed. `accept` raises
    EnvironmentFailure if the versions do not suit. `move` prepares what was unpacked at `root` for its
    final place `target`.
    """

    title: str
    name: str
    packages: tuple[str, ...]
    own: tuple[str, ...]
    advice: str
    accept: Callable[[Sequence[Package]], None] = _accept
    move: Callable[[Path, Path], None] = _leave


def unpacked(collection: Collection) -> tuple[Path, Mapping[str, str]]:
    """Returns the folder of the programs, unpacked the first time, and the versions of their packages."""
    folder = cache_directory(collection.name).absolute()
    if not (folder / NOTE).is_file():
        _unpack(collection, folder)
    lines = (folder / NOTE).read_text(encoding="utf-8").splitlines()
    return folder, dict(line.split() for line in lines)


def library_path(root: Path) -> str:
    """Returns the LD_LIBRARY_PATH of unpacked programs."""
    places = [*root.glob("usr/lib/*-linux-gnu*"), *root.glob("lib/*-linux-gnu*")]
    return ":".join(map(str, sorted(places)))


def _unpack(collection: Collection, folder: Path) -> None:
    """Fetches and unpacks the packages; the folder appears complete or not at all."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        raise EnvironmentFailure(
            f"{collection.title} runs from Debian's packages here, and `{missing[0]}` is not on the PATH",
            collection.advice,
        )
    if re.search(r"\s", str(folder)):
        raise EnvironmentFailure(
            f"{collection.title} cannot run from {str(folder)!r}: its scripts do not support spaces",
            "set VERISTREAM_CACHE to a folder without them",
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{collection.name}-", dir=folder.parent) as name:
        place = Path(name)
        packages = _fetch(collection, place)
        root = place / "root"
        root.mkdir()
        for path in sorted((place / "packages").glob("*.deb")):
            run(collection.title, ["dpkg-deb", "-x", str(path), str(root)], place)
        collection.move(root, folder)
        lines = "".join(f"{each.name} {each.version}\n" for each in packages)
        (root / NOTE).write_text(lines, encoding="utf-8")
        if not folder.is_dir():  # another process may have been faster
            root.rename(folder)


def _fetch(collection: Collection, place: Path) -> list[Package]:
    """Downloads the packages into PLACE/packages, with the system's lists or else with fresh ones.

    Old lists may name a package that the archive has replaced since.
    """
    try:
        return _download(collection, place, ())
    except EnvironmentFailure:
        own = [word for option in _own_lists(place) for word in ("-o", option)]
        run(collection.title, ["apt-get", *REFUSE, *own, "update"], place)
        return _download(collection, place, own)


def _download(collection: Collection, place: Path, options: Sequence[str]) -> list[Package]:
    shutil.rmtree(place / "packages", ignore_errors=True)
    (place / "packages").mkdir()
    apt = ["apt-get", *REFUSE, *options]
    everything = ["-o", "Dir::State::status=/dev/null"]  # as if nothing were installed
    install = ["-s", "install", "--no-install-recommends", *collection.packages]
    said = run(collection.title, [*apt, *everything, *install], place)
    query = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n"]
    there = run(collection.title, query, place)
    packages = plan(collection, said.splitlines(), there.splitlines())
    collection.accept(packages)
    exact = [f"{each.name}={each.version}" for each in packages]
    run(collection.title, [*apt, "download", *exact], place / "packages")
    fetched = len(list((place / "packages").glob("*.deb")))
    if fetched != len(packages):
        raise EnvironmentFailure(
            f"apt-get downloaded {fetched} of {len(packages)} packages of {collection.title}"
        )
    return packages


def plan(collection: Collection, simulated: Iterable[str], installed: Iterable[str]) -> list[Package]:
    """Returns what to unpack: the packages, their own parts, and those libraries that are not installed.

    `simulated` are the lines of `apt-get -s install` on a system without packages, `installed` those of
    dpkg-query.
    """
    there = {line.split()[0] for line in installed if line.endswith(" installed")}
    needed = [re.match(r"Inst (\S+) \((\S+) ", line) for line in simulated]
    found = [Package(each[1], each[2]) for each in needed if each is not None]
    names = {each.name for each in found}
    for name in collection.packages:
        if name not in names:
            raise EnvironmentFailure(f"apt-get does not say what {name} needs", "try `apt-get update`")
    return sorted(
        (
            each
            for each in found
            if each.name in collection.packages
            or each.name.startswith(collection.own)
            or (each.name.startswith("lib") and each.name not in there)
        ),
        key=lambda each: each.name,
    )


def upstream(version: str) -> str:
    """Returns the program's own part of a package's version: 3.10.8 of 3.10.8-1.1+deb12u1."""
    return version.rpartition(":")[2].partition("-")[0]


def _own_lists(place: Path) -> list[str]:
    """Returns the settings with which apt keeps its lists in a folder of ours."""
    for name in ("state/lists/partial", "cache/archives/partial"):
        (place / name).mkdir(parents=True, exist_ok=True)
    own = [f"Dir::State={place / 'state'}", f"Dir::Cache={place / 'cache'}"]
    if os.geteuid() == 0:  # else apt would give up root for a user who cannot enter our folder
        own.append("APT::Sandbox::User=root")
    return own


def run(title: str, command: Sequence[str], folder: Path) -> str:
    """Runs a tool in a folder and returns its output; raises EnvironmentFailure if it fails."""
    tool = command[0]
    hint = "check that the package sources of this system can be reached"
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
    except subprocess.TimeoutExpired as late:
        raise EnvironmentFailure(f"{tool} did not end within {PATIENCE_S:.0f} s", hint) from late
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        said = [line for line in lines if line.startswith("E: ")] or lines or [f"exit {done.returncode}"]
        raise EnvironmentFailure(f"{tool} cannot fetch {title}: {said[-1].removeprefix('E: ')}", hint)
    return done.stdout
