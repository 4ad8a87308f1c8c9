"""RabbitMQ and the Erlang that runs it, from the packages of this system (Debian), without root."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from veristream.brokers.debian import Collection, Package, library_path, unpacked, upstream
from veristream.errors import EnvironmentFailure

PACKAGE = "rabbitmq-server"
OLDEST, NEWEST = (3, 8), (3, 13)
"""The releases that have quorum queues and still mirrored ones; Debian 12 has 3.10."""
ERLANG = "usr/lib/erlang"
ADVICE = "use Debian 12, or record a RabbitMQ that already runs with --url"


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
        return {
            "PATH": f"{self.erlang / 'bin'}:/usr/bin:/bin",
            "LD_LIBRARY_PATH": library_path(self.root),
            "LANG": "C.UTF-8",
        }


def find_programs() -> RabbitPrograms:
    """Returns RabbitMQ's programs, unpacking them the first time; raises EnvironmentFailure."""
    folder, versions = unpacked(RABBITMQ)
    return RabbitPrograms(folder, upstream(versions[PACKAGE]))


def _accept(packages: Sequence[Package]) -> None:
    release = next(upstream(each.version) for each in packages if each.name == PACKAGE)
    if not OLDEST <= _numbers(release) <= NEWEST:
        raise EnvironmentFailure(
            f"the packages of this system have RabbitMQ {release}, and 3.8 to 3.13 is needed", ADVICE
        )


def _numbers(release: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _move(root: Path, target: Path) -> None:
    """Tells Erlang's start script where Erlang will be; Debian's ignores ERL_ROOTDIR."""
    for erl in (root / ERLANG).glob("**/bin/erl"):
        text = erl.read_text(encoding="utf-8")
        place = shlex.quote(str(target / ERLANG))
        erl.write_text(text.replace(f"ROOTDIR=/{ERLANG}\n", f"ROOTDIR={place}\n"), encoding="utf-8")


RABBITMQ = Collection(
    "RabbitMQ",
    "rabbitmq-3",
    (PACKAGE,),
    ("erlang-",),  # its scripts look for it in one place, so an installed part of it is of no use
    ADVICE,
    _accept,
    _move,
)
