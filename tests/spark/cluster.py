"""Starts a standalone Spark cluster on loopback, and finds and kills processes of a session."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from veristream.kabis.wire.ports import draw_ports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
START_SECONDS = 60.0
SECONDS_MAX = 400.0
"""No command takes longer, even on a busy machine."""


@dataclass(frozen=True, slots=True)
class Standalone:
    """A running cluster: its master's address, and the environment that its drivers need."""

    master: str
    environment: dict[str, str]


@dataclass(frozen=True, slots=True)
class Ended:
    """The exit code and the output of a command."""

    code: int
    output: str
    told: str  # on stderr


def veristream(
    *words: str,
    environment: dict[str, str] | None = None,
    seconds: float = SECONDS_MAX,
    folder: Path = ROOT,
) -> Ended:
    """Runs `veristream` with these arguments, in its own process."""
    command = [sys.executable, "-m", "veristream.cli", *words]
    return run(command, os.environ if environment is None else environment, seconds, folder)


def run(
    command: Sequence[str], environment: object, seconds: float = SECONDS_MAX, folder: Path = ROOT
) -> Ended:
    """Runs a command to its end."""
    done = subprocess.run(
        command,
        env=dict(environment),  # type: ignore[call-overload]
        capture_output=True,
        text=True,
        timeout=seconds,
        cwd=folder,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


@contextmanager
def standalone(java: Path, folder: Path) -> Iterator[Standalone]:
    """Runs one master and two workers with a core each; stops them in the end."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "JAVA_HOME": str(java),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    (port,) = draw_ports(1)
    address = f"spark://127.0.0.1:{port}"
    place = ["--host", "127.0.0.1", "--webui-port", "0"]
    room = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder)]
    commands = [["master.Master", *place, "--port", str(port)]]
    commands += [["worker.Worker", *place, *room, address]] * 2
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for words in commands:
            starter = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{words[0]}", *words[1:]]
            with open(folder / f"{len(processes)}.log", "wb") as log:
                processes.append(subprocess.Popen(starter, env=environment, stdout=log, stderr=log))
            if len(processes) == 1:
                _wait_for(port)
        yield Standalone(address, environment)
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(timeout=30)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert time.monotonic() < deadline, "the master does not start"
            time.sleep(0.2)
        else:
            return


def executors(session: SparkSession) -> list[int]:
    """Returns the processes of the session's executors on this machine."""
    port = session.sparkContext.getConf().get("spark.driver.port")
    return [
        pid for pid, words in _commands().items() if "ExecutorBackend" in words and f":{port} " in words
    ]


def python_workers(session: SparkSession) -> list[int]:
    """Returns the Python processes that run the session's tasks: children of the daemons of its executors,
    or of its driver if there are no executors."""
    commands, parents = _commands(), _parents()
    driver = session.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    owners = set(executors(session)) or {driver}
    daemons = {pid for pid, words in commands.items() if "pyspark" in words and parents.get(pid) in owners}
    return [pid for pid in commands if parents.get(pid) in daemons]


def kill(pid: int) -> None:
    """Kills a process with SIGKILL."""
    os.kill(pid, signal.SIGKILL)


def _commands() -> dict[int, str]:
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # it has ended in the meantime
    return found


def _parents() -> dict[int, int]:
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            after_name = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[int(folder.name)] = int(after_name[1])
    return found
