"""Unpacks RabbitMQ and the Erlang that runs it from the packages of this system (Debian), without root.

apt verifies the signature of the lists of packages, and every package against its checksum in them. The
lists of this system are used if they have the packages; otherwise, fresh ones are fetched into a folder
of our own. Nothing is installed, and no service is started.

    CACHE/rabbitmq-3/packages.txt     name and version of what was unpacked; written last
    CACHE/rabbitmq-3/usr/...          the programs
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from veristream.cache import cache_directory
from veristream.errors import EnvironmentFailure

PACKAGE = "rabbitmq-server"
NAME = "rabbitmq-3"
NOTE = "packages.txt"
OLDEST, NEWEST = (3, 8), (3, 13)
"""The releases that have quorum queues and still mirrored ones; Debian 12 has 3.10."""
PATIENCE_S = 600.0
ERLANG = "usr/lib/erlang"
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


@dataclass(frozen=True, slots=True)
class RabbitPrograms:
    """Where the unpacked programs are."""

    root: Path
    version: str

    @property
    def erlang(self) -> Path:
        """The folder of Erlang."""
        return self.root / ERLANG

    @property
    def epmd(self) -> Path:
        """Erlang's port mapper: who listens where."""
        return self.erlang / "bin" / "epmd"

    def script(self, name: str) -> Path:
        """Returns the path of one of RabbitMQ's scripts, such as rabbitmqctl."""
        return self.root / "usr" / "lib" / "rabbitmq" / "bin" / name

    def environment(self) -> dict[str, str]:
        """Returns the variables that the programs need to find each other and their libraries."""
        places = [*self.root.glob("usr/lib/*-linux-gnu*"), *self.root.glob("lib/*-linux-gnu*")]
        return {
            "PATH": f"{self.erlang / 'bin'}:/usr/bin:/bin",
            "LD_LIBRARY_PATH": ":".join(map(str, sorted(places))),
            "LANG": "C.UTF-8",
        }


def find_programs() -> RabbitPrograms:
    """Returns RabbitMQ's programs, unpacking them the first time; raises EnvironmentFailure."""
    folder = cache_directory(NAME).absolute()
    if not (folder / NOTE).is_file():
        unpack(folder)
    versions = dict(line.split() for line in (folder / NOTE).read_text(encoding="utf-8").splitlines())
    return RabbitPrograms(folder, upstream(versions[PACKAGE]))


def unpack(folder: Path) -> None:
    """Fetches and unpacks the packages; the folder appears complete or not at all."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        raise EnvironmentFailure(
            f"RabbitMQ runs from Debian's packages here, and `{missing[0]}` is not on the PATH",
            "use Debian 12, or record a RabbitMQ that already runs with --url",
        )
    if re.search(r"\s", str(folder)):
        raise EnvironmentFailure(
            f"RabbitMQ cannot run from {str(folder)!r}: its scripts do not support spaces",
            "set VERISTREAM_CACHE to a folder without them",
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{NAME}-", dir=folder.parent) as name:
        place = Path(name)
        packages = fetch(place)
        (place / "root").mkdir()
        for path in sorted((place / "packages").glob("*.deb")):
            run(["dpkg-deb", "-x", str(path), str(place / "root")], place)
        for erl in (place / "root" / ERLANG).glob("**/bin/erl"):
            _move(erl, folder / ERLANG)
        lines = "".join(f"{each.name} {each.version}\n" for each in packages)
        (place / "root" / NOTE).write_text(lines, encoding="utf-8")
        if not folder.is_dir():  # another process may have been faster
            (place / "root").rename(folder)


def fetch(place: Path) -> list[Package]:
    """Downloads the packages into PLACE/packages, with the system's lists or else with fresh ones."""
    try:
        return _download(place, ())
    except EnvironmentFailure:
        own = [word for option in _own_lists(place) for word in ("-o", option)]
        run(["apt-get", *REFUSE, *own, "update"], place)
        return _download(place, own)


def _download(place: Path, options: Sequence[str]) -> list[Package]:
    (place / "packages").mkdir(exist_ok=True)
    apt = ["apt-get", *REFUSE, *options]
    everything = ["-o", "Dir::State::status=/dev/null"]  # as if nothing were installed
    said = run([*apt, *everything, "-s", "install", "--no-install-recommends", PACKAGE], place)
    there = run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n"], place)
    packages = plan(said.splitlines(), there.splitlines())
    release = next(upstream(each.version) for each in packages if each.name == PACKAGE)
    if not OLDEST <= _numbers(release) <= NEWEST:
        raise EnvironmentFailure(
            f"the packages of this system have RabbitMQ {release}, and 3.8 to 3.13 is needed",
            "use Debian 12, or record a RabbitMQ that already runs with --url",
        )
    run([*apt, "download", *(f"{each.name}={each.version}" for each in packages)], place / "packages")
    fetched = len(list((place / "packages").glob("*.deb")))
    if fetched != len(packages):
        raise EnvironmentFailure(f"apt-get downloaded {fetched} of {len(packages)} packages of RabbitMQ")
    return packages


def plan(simulated: Iterable[str], installed: Iterable[str]) -> list[Package]:
    """Returns what to unpack: RabbitMQ, Erlang, and those of their libraries that are not installed.

    `simulated` are the lines of `apt-get -s install` on a system without packages, `installed` those of
    dpkg-query. Erlang's own scripts look for it in one place, so an installed part of it is of no use.
    """
    there = {line.split()[0] for line in installed if line.endswith(" installed")}
    needed = [re.match(r"Inst (\S+) \((\S+) ", line) for line in simulated]
    found = [Package(each[1], each[2]) for each in needed if each is not None]
    if PACKAGE not in {each.name for each in found}:
        raise EnvironmentFailure(f"apt-get does not say what {PACKAGE} needs", "try `apt-get update`")
    return sorted(
        (
            each
            for each in found
            if each.name.startswith((PACKAGE, "erlang-"))
            or (each.name.startswith("lib") and each.name not in there)
        ),
        key=lambda each: each.name,
    )


def upstream(version: str) -> str:
    """Returns RabbitMQ's own part of a package's version: 3.10.8 of 3.10.8-1.1+deb12u1."""
    return version.rpartition(":")[2].partition("-")[0]


def _numbers(release: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _own_lists(place: Path) -> list[str]:
    """Returns the settings with which apt keeps its lists in a folder of ours."""
    for name in ("state/lists/partial", "cache/archives/partial"):
        (place / name).mkdir(parents=True, exist_ok=True)
    own = [f"Dir::State={place / 'state'}", f"Dir::Cache={place / 'cache'}"]
    if os.geteuid() == 0:  # else apt would give up root for a user who cannot enter our folder
        own.append("APT::Sandbox::User=root")
    return own


def _move(erl: Path, to: Path) -> None:
    """Tells Erlang's start script where Erlang will be; Debian's ignores ERL_ROOTDIR."""
    text = erl.read_text(encoding="utf-8")
    erl.write_text(
        text.replace(f"ROOTDIR=/{ERLANG}\n", f"ROOTDIR={shlex.quote(str(to))}\n"), encoding="utf-8"
    )


def run(command: Sequence[str], folder: Path) -> str:
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
        raise EnvironmentFailure(f"{tool} cannot fetch RabbitMQ: {said[-1].removeprefix('E: ')}", hint)
    return done.stdout
