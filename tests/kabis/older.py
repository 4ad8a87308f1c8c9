"""The program as it was at an earlier commit of this repository, beside the present one.

The history of the repository is needed: `git fetch --unshallow` fetches it.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.missing import is_missing

COMMIT = "56f7901"
"""Its protocol version is 1."""
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Older:
    """The sources of the older version, and how to run something with them."""

    sources: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a process that imports these sources, and the tests of today."""
        return {**os.environ, "PYTHONPATH": os.pathsep.join((str(self.sources), str(ROOT)))}

    def start(self, command: Sequence[str], output: Path) -> subprocess.Popen[bytes]:
        """Starts a process whose standard input is a pipe, and which adds its output to a file."""
        with output.open("ab") as file:
            return subprocess.Popen(
                [sys.executable, *command],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                cwd=self.sources,
                env=self.environment,
            )

    def run(self, code: str, *arguments: str) -> str:
        """Runs a program to its end, which must be good; gives what it prints."""
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.sources,
            env=self.environment,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def unpack_older(folder: Path) -> Older:
    """Unpacks the sources of the older version into a new folder."""
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", COMMIT, "src/veristream"], capture_output=True, check=False
    )
    if archive.returncode != 0:
        is_missing(f"the history of this clone lacks {COMMIT}: {archive.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")
    older = Older(folder / "src")
    told = older.run("import veristream.kabis as kabis; print(kabis.__file__)")
    assert told.startswith(str(older.sources)), "the present version is imported instead"
    return older
