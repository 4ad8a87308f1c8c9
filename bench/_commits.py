"""Runs the code of several commits on one machine, each with caches of its own.

A commit is unpacked into a temporary folder, so that nothing is left in the repository, however a bench
ends. Its code runs in the virtual environment of this checkout.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from types import FrameType
from typing import Any

from _measure import ROOT, commit

DROPPED = ("PYTHONDONTWRITEBYTECODE",)
"""What commands do not see of the environment: without bytecode, each would compile its modules again."""


class WrongCommit(SystemExit):
    """The user named no commit of this repository."""


@dataclass(frozen=True)
class Code:
    """The code of one commit: its folder, and the folder of its caches."""

    label: str
    root: Path
    caches: Path

    def environment(self) -> dict[str, str]:
        """Returns the environment in which Python imports this code and uses these caches."""
        paths = [str(self.root / name) for name in ("src", "testing") if (self.root / name).is_dir()]
        kept = {name: value for name, value in os.environ.items() if name not in DROPPED}
        return kept | {
            "PYTHONPATH": os.pathsep.join(paths),
            "VERISTREAM_CACHE": str(self.caches / "veristream"),
            "NUMBA_CACHE_DIR": str(self.caches / "numba"),
        }

    def with_caches(self, caches: Path) -> Code:
        """Returns the same code with other caches."""
        return replace(self, caches=caches)

    def python(self, *words: object) -> Ran:
        """Runs Python with this code, outside of any checkout."""
        return run([sys.executable, *map(str, words)], self.environment(), self.caches)

    def check(self, model: Path, *words: str) -> Ran:
        """Runs `veristream check MODEL`, which must come to verdicts."""
        return decided(self.python("-m", "veristream.cli", "check", model, "--json", *words))

    def can_reduce(self) -> bool:
        """Whether this code has a partial-order reduction that can be switched off."""
        return "--no-reduction" in self.python("-m", "veristream.cli", "check", "--help").output


@dataclass(frozen=True)
class Ran:
    """A process that has ended, with its wall time and the CPU time of it and its children."""

    code: int
    output: str
    errors: str
    wall_seconds: float
    cpu_seconds: float

    def results(self) -> list[dict[str, Any]]:
        """Returns the results of `veristream check --json`."""
        results: list[dict[str, Any]] = json.loads(self.output)["results"]
        return results

    def states(self) -> int:
        """Returns the states of the largest search of `veristream check --json`."""
        return max(int(result["states"]) for result in self.results())


def decided(ran: Ran) -> Ran:
    """Returns a run of `veristream check` if it came to verdicts, be they violations (exit code 1)."""
    if ran.code not in (0, 1):
        raise SystemExit(f"veristream check ended with {ran.code}: {ran.output}{ran.errors}")
    return ran


def run(words: Sequence[str], environment: dict[str, str] | None = None, place: Path | None = None) -> Ran:
    """Runs a program to its end, whatever its exit code."""
    before = _cpu_of_children()
    began = time.perf_counter()
    done = subprocess.run(words, env=environment, cwd=place, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - began
    return Ran(done.returncode, done.stdout, done.stderr, wall, _cpu_of_children() - before)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def workplace() -> Iterator[Path]:
    """Gives a temporary folder that is removed at the end, also after Ctrl-C or SIGTERM."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        with tempfile.TemporaryDirectory(prefix="veristream-bench-") as folder:
            yield Path(folder)
    finally:
        signal.signal(signal.SIGTERM, before)


def ours(place: Path) -> Code:
    """Returns the code of this checkout, with its uncommitted changes."""
    return _checked(Code(commit(), ROOT, _new(place / "ours-caches")))


def unpack(name: str, place: Path) -> Code:
    """Unpacks a commit into the folder; raises WrongCommit if there is none of this name."""
    number = resolve(name)
    root = _new(place / f"{number[:12]}-code")
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", number], capture_output=True, check=True)
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(root, filter="data")
    return _checked(Code(number[:7], root, _new(place / f"{number[:12]}-caches")))


def resolve(name: str, repository: Path = ROOT) -> str:
    """Returns the full number of a commit; raises WrongCommit if there is none of this name."""
    words = ["git", "-C", str(repository), "rev-parse", "--verify", "--quiet", "--end-of-options"]
    found = subprocess.run([*words, f"{name}^{{commit}}"], capture_output=True, text=True, check=False)
    number = found.stdout.strip()
    if not name or found.returncode != 0 or not number:
        raise WrongCommit(
            f"{name or 'an empty name'} is not a commit of this repository: see `git log --oneline`"
        )
    return number


def _new(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def _checked(code: Code) -> Code:
    """Returns the code if Python really imports it, and not what is installed in the environment."""
    found = code.python("-c", "import veristream; print(veristream.__file__)")
    if found.code != 0 or not Path(found.output.strip()).is_relative_to(code.root):
        raise SystemExit(f"{code.label} cannot be imported: {found.output}{found.errors}")
    return code
