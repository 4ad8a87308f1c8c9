"""`veristream record rabbitmq` with real nodes: to its end, with others' nodes, and interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.recording.histories import read_back
from veristream.history.events import Operation, Outcome
from veristream.recording.rabbitmq.running import RunningRabbit

pytestmark = [pytest.mark.brokers, pytest.mark.xdist_group("rabbitmq")]


def record(to: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "veristream.cli", "record", "rabbitmq", "--to", str(to), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_nodes_of_its_own_are_killed(rabbitmq: None, tmp_path: Path) -> None:
    running = record(
        tmp_path / "h", "--nodes", "1", "--seconds", "3", "--faults", "kill", "--transient",
        "--set", "client.consumers=0",
    )  # fmt: skip
    said, errors = running.communicate()
    assert running.returncode == 0, errors
    manifest, events = read_back(tmp_path / "h")
    assert said.splitlines()[0] == f"{len(events):,} events in {tmp_path / 'h'}"
    assert manifest.complete
    assert [(each.kind, each.target) for each in manifest.incidents] == [("kill", "rabbit-1")]
    assert manifest.settings["client.persistent"] == "false"
    assert (manifest.source, manifest.nodes) == ("rabbitmq", ("rabbit-1",))
    sent = [each for each in events if each.operation is Operation.SEND and each.outcome is Outcome.OK]
    received = [each for each in events if each.operation is Operation.RECEIVE]
    assert len(received) < len(sent)
    assert errors == ""


def test_a_node_that_runs_is_used(rabbit: RunningRabbit, tmp_path: Path) -> None:
    running = record(
        tmp_path / "h", "--url", rabbit.local.url("rabbit-1"), "--seconds", "1", "--queue", "quorum"
    )
    _, errors = running.communicate()
    assert running.returncode == 0, errors
    manifest, events = read_back(tmp_path / "h")
    assert manifest.nodes == (rabbit.local.address("rabbit-1"),)
    ends = [each for each in events if each.outcome is Outcome.OK]
    sent = {(each.producer, each.number) for each in ends if each.operation is Operation.SEND}
    received = [(each.producer, each.number) for each in ends if each.operation is Operation.RECEIVE]
    assert sorted(received) == sorted(sent)
    assert sent
    assert rabbit.local.find().keys() == {"epmd-1", "rabbit-1"}


def test_an_interrupt_leaves_a_history_that_is_not_complete(rabbit: RunningRabbit, tmp_path: Path) -> None:
    url = rabbit.local.url("rabbit-1")
    running = record(tmp_path / "h", "--url", url, "--seconds", "600", "--set", "client.consumers=0")
    while not any(each.messages for each in rabbit.local.queues().values()):
        assert running.poll() is None
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate()
    assert running.returncode == 130, errors
    assert errors == f"interrupted: {tmp_path / 'h'} is a history, but not complete\n"
    manifest, events = read_back(tmp_path / "h")
    assert not manifest.complete
    assert any(each.operation is Operation.SEND for each in events)
