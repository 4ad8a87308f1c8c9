"""Serves /metrics (Prometheus's text format) and /health (JSON) of a party on a loopback port.

A few plain HTTP requests a minute do not need a library: one request for each connection, a bounded head, a
bounded number of connections, and a time limit. It never calls anybody.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from veristream.errors import EnvironmentFailure
from veristream.kabis.wire.ports import HOST

CONNECTIONS_MAX = 8
HEAD_BYTES_MAX = 4_096
REQUEST_S = 5.0
DISK_FREE_MIN_BYTES = 100 << 20
"""With less free space than this, a party is unhealthy: its next segment may not fit."""
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of a party; a counter only grows until the process ends."""

    name: str
    value: float
    help: str
    is_counter: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """The numbers of a party now, and why it is unhealthy; healthy without a problem."""

    metrics: tuple[Metric, ...]
    problems: tuple[str, ...] = ()


def read_machine(folder: Path) -> Reading:
    """Returns what every party has: memory, open files and their limit, and free disk space."""
    free = shutil.disk_usage(folder).free
    files, files_max = count_files(), resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    metrics = (
        Metric("kabis_memory_bytes", _measure_memory(), "Resident memory of the process."),
        Metric("kabis_open_files", files, "Open file descriptors."),
        Metric("kabis_open_files_max", files_max, "Limit of open file descriptors."),
        Metric("kabis_disk_free_bytes", free, "Free space where the party keeps its data."),
    )
    problems = []
    if free < DISK_FREE_MIN_BYTES:
        problems.append(f"only {free >> 20} MiB are free on the disk")
    if files > 0.9 * files_max:
        problems.append(f"{files} of {files_max} files are open")
    return Reading(metrics, tuple(problems))


def count_files() -> int:
    """Returns the number of open files of this process; 0 where the system does not say."""
    with suppress(OSError):
        return len(os.listdir("/proc/self/fd"))
    return 0


def _measure_memory() -> int:
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def render_metrics(reading: Reading, party: str) -> str:
    """Renders a reading in Prometheus's text format, version 0.0.4."""
    lines = []
    healthy = Metric("kabis_healthy", not reading.problems, "1 if /health answers 200, otherwise 0.")
    for metric in (healthy, *reading.metrics):
        kind = "counter" if metric.is_counter else "gauge"
        lines += [
            f"# HELP {metric.name} {metric.help}",
            f"# TYPE {metric.name} {kind}",
            f'{metric.name}{{party="{party}"}} {float(metric.value):.17g}',
        ]
    return "\n".join(lines) + "\n"


def render_health(reading: Reading, party: str) -> str:
    """Renders a reading as the JSON of /health."""
    numbers = {metric.name.removeprefix("kabis_"): metric.value for metric in reading.metrics}
    body = {"party": party, "healthy": not reading.problems, "problems": list(reading.problems), **numbers}
    return json.dumps(body) + "\n"


@asynccontextmanager
async def monitored(port: int, party: str, read: Callable[[], Reading]) -> AsyncIterator[None]:
    """Serves the pages while the context is open; with port 0 it serves nothing."""
    if not port:
        yield
        return
    monitor = _Monitor(party, read)
    try:
        server = await asyncio.start_server(monitor.serve, HOST, port, limit=HEAD_BYTES_MAX)
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot serve metrics at {HOST}:{port}: {os.strerror(error.errno or 0)}",
            "choose another `port` under [metrics] in kabis.toml",
        ) from error
    try:
        yield
    finally:
        server.close()
        await monitor.close()


class _Monitor:
    """Answers HTTP requests."""

    def __init__(self, party: str, read: Callable[[], Reading]) -> None:
        self._party = party
        self._read = read
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one request and closes the connection; too many connections are closed at once."""
        task = asyncio.current_task()
        assert task is not None
        try:
            if len(self._tasks) < CONNECTIONS_MAX:
                self._tasks.add(task)
                async with asyncio.timeout(REQUEST_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._answer(head))
                    await writer.drain()
        except (TimeoutError, asyncio.LimitOverrunError, asyncio.IncompleteReadError, OSError):
            pass  # it said nothing that could be answered in time
        finally:
            self._tasks.discard(task)
            writer.close()

    async def close(self) -> None:
        """Ends all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _answer(self, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return _encode(400, "text/plain", "not an HTTP request\n")
        if words[0] not in ("GET", "HEAD"):
            return _encode(405, "text/plain", "only GET and HEAD\n")
        match words[1].partition("?")[0]:
            case "/metrics":
                text = render_metrics(self._read(), self._party)
                answer = _encode(200, "text/plain; version=0.0.4; charset=utf-8", text)
            case "/health":
                reading = self._read()
                text = render_health(reading, self._party)
                answer = _encode(503 if reading.problems else 200, "application/json", text)
            case _:
                answer = _encode(404, "text/plain", "there are /metrics and /health\n")
        return answer.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" if words[0] == "HEAD" else answer


def _encode(status: int, kind: str, text: str) -> bytes:
    body = text.encode()
    lines = (
        f"HTTP/1.1 {status} {_REASONS[status]}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
