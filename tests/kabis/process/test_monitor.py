"""The pages of a party, as an HTTP client sees them, well-behaved or not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from veristream.errors import EnvironmentFailure
from veristream.kabis.process import monitor
from veristream.kabis.process.monitor import Metric, Reading, monitored, read_machine, render_metrics
from veristream.kabis.wire.ports import draw_ports

WELL = Reading((Metric("kabis_height", 7, "Height."), Metric("kabis_seen", 3, "Seen.", is_counter=True)))
ILL = Reading(WELL.metrics, ("the disk is full",))


async def ask(port: int, request: bytes) -> tuple[str, str]:
    """Returns the status line and the body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = (await reader.read()).decode()
    writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    return head.splitlines()[0] if head else "", body


def serve(reading: Reading, use: Callable[[int], Awaitable[None]]) -> None:
    async def main() -> None:
        (port,) = draw_ports(1)
        async with monitored(port, "storage-1", lambda: reading):
            await use(port)

    asyncio.run(main())


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


def test_the_pages_of_a_healthy_party() -> None:
    async def use(port: int) -> None:
        status, body = await ask(port, get("/metrics"))
        assert status == "HTTP/1.1 200 OK"
        assert body == (
            "# HELP kabis_healthy 1 if /health answers 200, otherwise 0.\n"
            "# TYPE kabis_healthy gauge\n"
            'kabis_healthy{party="storage-1"} 1\n'
            "# HELP kabis_height Height.\n"
            "# TYPE kabis_height gauge\n"
            'kabis_height{party="storage-1"} 7\n'
            "# HELP kabis_seen Seen.\n"
            "# TYPE kabis_seen counter\n"
            'kabis_seen{party="storage-1"} 3\n'
        )
        status, body = await ask(port, get("/health?verbose"))
        assert status == "HTTP/1.1 200 OK"
        assert json.loads(body) == {
            "party": "storage-1",
            "healthy": True,
            "problems": [],
            "height": 7,
            "seen": 3,
        }

    serve(WELL, use)


def test_an_unhealthy_party_says_why() -> None:
    async def use(port: int) -> None:
        status, body = await ask(port, get("/health"))
        assert status == "HTTP/1.1 503 Service Unavailable"
        assert json.loads(body)["problems"] == ["the disk is full"]
        assert 'kabis_healthy{party="storage-1"} 0\n' in (await ask(port, get("/metrics")))[1]

    serve(ILL, use)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (get("/"), "HTTP/1.1 404 Not Found"),
        (b"POST /health HTTP/1.1\r\n\r\n", "HTTP/1.1 405 Method Not Allowed"),
        (b"hello\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        (b"\xff\x00 \xff \xff\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        (b"HEAD /health HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK"),
        (b"GET /health HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", ""),
    ],
)
def test_other_requests(request_bytes: bytes, status: str) -> None:
    async def use(port: int) -> None:
        try:
            found = (await ask(port, request_bytes))[0]
        except ConnectionError:
            found = ""
        assert found == status
        assert (await ask(port, get("/health")))[0] == "HTTP/1.1 200 OK"

    serve(WELL, use)


def test_connections_are_bounded_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "REQUEST_S", 0.5)

    async def use(port: int) -> None:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        ends = [await reader.read() for reader, _ in silent]
        assert ends == [b""] * 20
        for _, writer in silent:
            writer.close()
        assert (await ask(port, get("/health")))[0] == "HTTP/1.1 200 OK"

    serve(WELL, use)


def test_a_port_in_use_is_told_and_port_0_serves_nothing() -> None:
    async def use(port: int) -> None:
        with pytest.raises(EnvironmentFailure, match=f"cannot serve metrics at 127.0.0.1:{port}"):
            async with monitored(port, "storage-2", lambda: WELL):
                pass
        async with monitored(0, "storage-3", lambda: WELL):
            pass

    serve(WELL, use)


def test_the_machine_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = read_machine(tmp_path)
    values = {metric.name: metric.value for metric in reading.metrics}
    assert values["kabis_memory_bytes"] > 1 << 20
    assert 0 < values["kabis_open_files"] < values["kabis_open_files_max"]
    assert "kabis_disk_free_bytes" in render_metrics(reading, "x")
    monkeypatch.setattr(monitor, "DISK_FREE_MIN_BYTES", 1 << 60)
    assert "are free on the disk" in read_machine(tmp_path).problems[0]
