"""A supervisor over real parties: who is killed comes back with its data; who was stopped stays down."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kabis.session.console import Console, opened
from veristream.kabis.cluster import processes
from veristream.kabis.cluster.cluster import Cluster, StartOptions
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.cluster.restarts import Policy, read_history
from veristream.kabis.operations.supervisor import Supervisor

pytestmark = pytest.mark.long

PATIENCE_S = 60.0


def wait_for(is_so: Callable[[], bool], step: Callable[[], None] = lambda: None) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        step()
        assert time.monotonic() < deadline_s, "it did not happen"
        time.sleep(0.05)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Console]:
    with opened(tmp_path / "cluster") as console:
        console.do("up", "--detach", "--parties", "1")
        yield console


def kill(console: Console, name: str) -> int:
    """Kills a party as the system would, and returns its process id."""
    pid = console.cluster.find()[name].pid
    os.kill(pid, signal.SIGKILL)
    return pid


def test_killed_parties_come_back_and_nothing_is_lost(run: Console) -> None:
    run.do("topic", "create", "orders")
    for round_number in range(2):
        run.do("produce", "orders", given=f"event {round_number}\n")
        for name in ("validator-1", "storage-1"):
            before = kill(run, name)

            def is_back(name: str = name, before: int = before) -> bool:
                found = run.cluster.find().get(name)
                ready = processes.read_ready(run.data / name)
                return found is not None and found.pid != before and ready == found.pid

            wait_for(is_back)
    lines = run.do("consume", "orders", "--from-beginning", "--max", "2").output
    assert [f"event {number}" in lines for number in range(2)] == [True, True]
    status = run.look(lambda seen: seen.code == 0, "status", "--json")
    parties = {party["name"]: party for party in json.loads(status.output)["parties"]}
    assert {name: party["restarts"] for name, party in parties.items()} == {
        "validator-1": 2,
        "storage-1": 2,
    }
    log = (run.data / "supervisor" / "party.log").read_text(encoding="utf-8")
    told = [json.loads(line)["message"] for line in log.splitlines()]
    assert [line for line in told if line == "storage-1 restarted"] == ["storage-1 restarted"] * 2
    shown = run.do("status").output
    assert "validator-1 was killed by SIGKILL, restarted 2 times\n" in shown


def test_down_stops_the_supervisor_first(run: Console) -> None:
    supervisor = run.cluster.find_supervisor()
    assert supervisor is not None
    assert run.do("down").output == "stopped validator-1, storage-1\n"
    assert not supervisor.is_alive()
    assert run.cluster.find() == {}


def test_a_party_stopped_on_purpose_stays_down_until_it_is_started(run: Console) -> None:
    supervisor = Supervisor(run.cluster, StartOptions(attended=False), lambda line: None)
    run.cluster.stop(["storage-1"])
    supervisor.step()
    supervisor.step()
    assert list(run.cluster.find()) == ["validator-1"]
    run.do("up", "--detach")
    assert list(run.cluster.find()) == ["validator-1", "storage-1"]


def test_a_cluster_whose_supervisor_died_gets_another(run: Console) -> None:
    supervisor = run.cluster.find_supervisor()
    assert supervisor is not None
    supervisor.signal(signal.SIGKILL)
    wait_for(lambda: not supervisor.is_alive())
    before = run.cluster.find()
    run.do("up", "--detach")
    assert {name: each.pid for name, each in run.cluster.find().items()} == {
        name: each.pid for name, each in before.items()
    }
    again = run.cluster.find_supervisor()
    assert again is not None and again.pid != supervisor.pid
    assert "already up" in run("up", "--detach").told


def test_a_party_that_cannot_start_is_named_with_its_last_lines(tmp_path: Path) -> None:
    """Others may read the key of a party: it refuses with exit code 2 and is not tried again."""
    told: list[str] = []
    with Cluster(ClusterFolder(tmp_path / "cluster")) as cluster:
        cluster.create(1)
        cluster.start()
        supervisor = Supervisor(cluster, StartOptions(), told.append, Policy(first_s=0.01))
        supervisor.step()
        key = cluster.folder_of("storage-1") / "key"
        key.chmod(0o644)
        os.kill(cluster.find()["storage-1"].pid, signal.SIGKILL)
        folder = cluster.folder_of("storage-1")
        wait_for(lambda: read_history(folder).is_left, supervisor.step)
        for _ in range(5):
            supervisor.step()
        assert read_history(folder).restarts == 1
        assert [line.partition(";")[0].partition(":")[0] for line in told] == [
            "storage-1 was killed by SIGKILL",
            "storage-1 restarted",
            "storage-1 ended with exit code 2",
        ]
        assert "it stays down until you start it" in told[-1]
        assert f"\n  error: others may read {key}" in told[-1]


def test_a_party_that_crashes_at_once_is_left_down_after_a_few_attempts(tmp_path: Path) -> None:
    """Its log is a file instead of a folder, as after a bad restore."""
    told: list[str] = []
    with Cluster(ClusterFolder(tmp_path / "cluster")) as cluster:
        cluster.create(1)
        folder = cluster.folder_of("validator-1")
        (folder / "blocks").write_bytes(b"")
        policy = Policy(first_s=0.01, last_s=0.02, failures_max=2)
        supervisor = Supervisor(cluster, StartOptions(), told.append, policy)
        cluster.launch(StartOptions(), cluster.names())
        wait_for(lambda: read_history(folder).is_left, supervisor.step)
        assert read_history(folder).restarts == policy.failures_max
        assert list(cluster.find()) == ["storage-1"]


def test_a_failed_start_says_why_and_leaves_nobody_running(tmp_path: Path) -> None:
    with opened(tmp_path / "cluster") as console:
        console.cluster.create(1)
        (console.data / "storage-1" / "key").chmod(0o644)
        refused = console("up", "--detach")
        assert refused.code == 2
        assert refused.told.startswith("error: storage-1 did not start: ")
        assert console.cluster.find() == {}
        assert console.cluster.find_supervisor() is None


def test_kills_under_load_lose_no_acknowledged_event(tmp_path: Path) -> None:
    """Of four validators and three storage parties, one each is killed again and again."""
    with opened(tmp_path / "cluster") as console:
        console.do("up", "--detach")
        console.do("topic", "create", "orders", "--partitions", "1")
        acknowledged: list[str] = []
        for round_number in range(3):
            for name in ("validator-1", "storage-1"):
                if name in console.cluster.find():
                    kill(console, name)
            lines = [f"event {round_number} {number}" for number in range(20)]
            console.do("produce", "orders", given="".join(f"{line}\n" for line in lines))
            acknowledged += lines
            wait_for(lambda: len(console.cluster.find()) == 7)
        shown = console.do("consume", "orders", "--from-beginning", "--max", len(acknowledged)).output
        assert [line for line in acknowledged if shown.count(line) < 1] == []
        assert "nobody was caught" in console("status").output
