"""Builds NSQ with Go from sources that `go.mod` and `go.sum` pin.

Go verifies every module against the checksums in `go.sum`, and refuses to change either file. The
replacement in `go.mod` is of a module that its author has taken away; NSQ's own build replaces it too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from importlib import resources
from pathlib import Path

from veristream.cache import cache_directory
from veristream.errors import EnvironmentFailure

VERSION = "1.3.0"
MODULE = "github.com/nsqio/nsq"
PROGRAMS = ("nsqd", "nsqlookupd")
PATIENCE_S = 900.0


def find_programs() -> Path:
    """Returns the folder that has `nsqd` and `nsqlookupd`, building them the first time.

    Raises EnvironmentFailure.
    """
    folder = cache_directory(f"nsq-{VERSION}")
    return folder if all((folder / name).is_file() for name in PROGRAMS) else build(folder)


def build(folder: Path) -> Path:
    """Builds NSQ into a folder and returns it; raises EnvironmentFailure."""
    go = shutil.which("go")
    if go is None:
        raise EnvironmentFailure(
            f"building NSQ {VERSION} needs Go, and `go` is not on the PATH",
            "install Go 1.17 or newer, for example the Debian package `golang-go`",
        )
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        made = Path(place)
        for name in ("go.mod", "go.sum"):
            pinned = resources.files("veristream.brokers.nsq").joinpath(name)
            (made / name).write_bytes(pinned.read_bytes())
        _run(go, made)
        for name in PROGRAMS:
            os.replace(made / "bin" / name, folder / name)  # atomic
    return folder


def _run(go: str, folder: Path) -> None:
    packages = [f"{MODULE}/apps/{name}" for name in PROGRAMS]
    # Of the caller's settings, only where modules come from and where they are kept matter.
    environment = {**os.environ, "GOFLAGS": "", "GO111MODULE": "on", "GOWORK": "off"}
    try:
        done = subprocess.run(
            [go, "build", "-mod=readonly", "-o", f"{folder / 'bin'}{os.sep}", *packages],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFailure(
            f"Go did not build NSQ within {PATIENCE_S:.0f} s", "check that it can reach its module proxy"
        ) from error
    if done.returncode != 0:
        said = done.stderr.strip().rpartition("\n")[2]
        raise EnvironmentFailure(
            f"Go cannot build NSQ {VERSION}: {said}", "check that it can reach its module proxy"
        )
