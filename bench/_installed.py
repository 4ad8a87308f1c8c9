"""The wheel of this checkout in a virtual environment of its own: what a user has after `pip install`."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from _commits import Code, Ran, decided, run
from _measure import ROOT, commit, say

KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR")
"""What an installed command sees of the environment: nothing that leads to a checkout or to a cache."""


@dataclass(frozen=True)
class Installed(Code):
    """An installation: `root` is its virtual environment, and the home folder is that of the caches."""

    def environment(self) -> dict[str, str]:
        """Returns an environment in which all caches are below the home folder."""
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        return kept | {"HOME": str(self.caches)}

    def python(self, *words: object) -> Ran:
        """Runs Python with the installed code."""
        return self._run("python", *words)

    def check(self, model: Path, *words: str) -> Ran:
        """Runs `veristream check MODEL` as a user does; it must come to verdicts."""
        return decided(self._run("veristream", "check", model, "--json", *words))

    def _run(self, program: str, *words: object) -> Ran:
        command = [str(self.root / "bin" / program), *map(str, words)]
        return run(command, self.environment(), self.caches)


def install(place: Path) -> Installed:
    """Builds the wheel, which takes minutes, and installs it into an empty virtual environment."""
    say("building the wheel ...")
    pip = ["-m", "pip", "--quiet", "--disable-pip-version-check"]
    _succeed([sys.executable, *pip, "wheel", str(ROOT), "--no-deps", "--wheel-dir", str(place / "wheel")])
    (wheel,) = (place / "wheel").glob("*.whl")
    say("installing it into an empty virtual environment ...")
    root, caches = place / "venv", place / "installed-caches"
    _succeed([sys.executable, "-m", "venv", str(root)])
    _succeed([str(root / "bin" / "python"), *pip, "install", str(wheel)])
    caches.mkdir()
    return Installed(commit(), root, caches)


def _succeed(words: list[str]) -> None:
    """Runs a program that must succeed."""
    ran = run(words)
    if ran.code != 0:
        raise SystemExit(f"{' '.join(words)} ended with {ran.code}: {ran.output}{ran.errors}")
