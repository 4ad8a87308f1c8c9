"""Compiles the Java client once with ECJ, a compiler that needs only a JRE."""

from __future__ import annotations

import os
import subprocess
import tempfile
from hashlib import sha256
from importlib import resources
from pathlib import Path

from veristream.brokers.kafka import Program
from veristream.brokers.maven import Artifact, Bundle, resolve
from veristream.cache import cache_directory
from veristream.errors import EnvironmentFailure

CLIENT = "TransactionalClient"
ECJ = Bundle("ecj-3.37.0", (Artifact("org.eclipse.jdt", "ecj", "3.37.0"),), "ecj.sha256")
PATIENCE_S = 300.0


def find_client(program: Program) -> Path:
    """Returns the folder of the client's classes for a Kafka, compiling them the first time.

    Raises EnvironmentFailure.
    """
    source = resources.files("veristream.brokers.java").joinpath(f"{CLIENT}.java").read_bytes()
    made_from = sha256(source + program.jars.name.encode() + ECJ.name.encode()).hexdigest()
    folder = cache_directory("java-client") / made_from[:16]
    return folder if (folder / f"{CLIENT}.class").is_file() else _compile(program, source, folder)


def _compile(program: Program, source: bytes, folder: Path) -> Path:
    """Compiles into a folder, which appears complete or not at all."""
    (compiler,) = resolve(ECJ).iterdir()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        path, fresh = Path(place) / f"{CLIENT}.java", Path(place) / "classes"
        path.write_bytes(source)
        jars = os.pathsep.join(str(each) for each in sorted(program.jars.glob("*.jar")))
        options = ["-17", "-proc:none", "-nowarn", "-classpath", jars, "-d", str(fresh)]
        command = [str(program.java), "-jar", str(compiler), *options, str(path)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        except (OSError, subprocess.TimeoutExpired) as failure:
            raise EnvironmentFailure(f"cannot compile the Java client: {failure}", _HINT) from failure
        if done.returncode != 0:
            said = next(
                (line for line in done.stderr.splitlines() if "ERROR" in line or "rror:" in line), ""
            )
            raise EnvironmentFailure(
                f"cannot compile the Java client: {said or f'exit {done.returncode}'}", _HINT
            )
        if not folder.is_dir():  # another process may have been faster
            fresh.rename(folder)
    return folder


_HINT = "it needs Java 17 or newer; a JRE suffices"
