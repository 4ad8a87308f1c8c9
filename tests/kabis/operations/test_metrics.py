"""/metrics and /health of real parties."""

from __future__ import annotations

import json
import time
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

from tests.kabis.session.console import opened
from veristream.kabis.wire.ports import draw_ports

pytestmark = pytest.mark.long

PATIENCE_S = 60.0


def read(port: int, path: str) -> tuple[int, str]:
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def wait_for_health(port: int, code: int) -> dict[str, object]:
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            status, body = read(port, "/health")
        except (URLError, ConnectionError):
            status, body = 0, "{}"
        if status == code or time.monotonic() > deadline_s:
            assert status == code
            return dict(json.loads(body))
        time.sleep(0.1)


def test_parties_tell_how_they_are(tmp_path: Path) -> None:
    ports = draw_ports(7)
    with opened(tmp_path / "cluster") as console:
        console.cluster.create()
        names = console.cluster.names()
        tables = [
            f"[parties.{name}]\nmetrics_port = {port}\n" for name, port in zip(names, ports, strict=True)
        ]
        (console.data / "kabis.toml").write_text("".join(tables), encoding="utf-8")
        console.do("up", "--detach")
        console.do("topic", "create", "orders")
        console.do("produce", "orders", given="one\ntwo\n")
        for port in ports:
            health = wait_for_health(port, 200)
            assert health["problems"] == []
            assert health["party"] == names[ports.index(port)]
        validator, storage = wait_for_health(ports[0], 200), read(ports[4], "/metrics")[1]
        assert isinstance(validator["height"], int) and validator["height"] >= 2
        assert 'kabis_records{party="storage-1"}' in storage
        console.cluster.stop(["validator-2", "validator-3"])
        ill = wait_for_health(ports[0], 503)
        assert ill["problems"] == ["only 1 of 3 other validators are connected"]
