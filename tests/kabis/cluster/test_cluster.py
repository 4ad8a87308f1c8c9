"""Processes of a cluster: attended and not, told apart from strangers; and chaos tries what it says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.kabis.session.console import opened
from veristream.kabis.cluster import chaos, processes
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.chaos import Fault, Told
from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.cluster.folder import ClusterFolder, count_faults
from veristream.kabis.protocol.genesis import StorageMode
from veristream.kabis.wire.ports import draw_ports, find_range

pytestmark = pytest.mark.long

PATIENCE_S = 30.0

STAY = "import time, sys; sys.stdin.read() if {attended} else time.sleep(60)"


def command(attended: bool) -> list[str]:
    return [sys.executable, "-c", STAY.format(attended=attended)]


def test_a_process_is_found_by_its_note_and_stopped(tmp_path: Path) -> None:
    started = processes.start("one", command(attended=False), tmp_path, attended=False)
    try:
        found = processes.find(tmp_path)
        assert found is not None
        assert (found.name, found.pid, found.child) == ("one", started.pid, None)
    finally:
        assert processes.stop([started], PATIENCE_S) == []
    assert started.exit_code == -signal.SIGTERM
    assert processes.find(tmp_path) is None


def test_a_pid_that_is_somebody_elses_now_is_left_alone(tmp_path: Path) -> None:
    """The note is stale: its number belongs to a process that was started otherwise."""
    with subprocess.Popen(command(attended=True), stdin=subprocess.PIPE) as other:
        note = {"name": "gone", "pid": other.pid, "command": [sys.executable, "-c", "something else"]}
        (tmp_path / "process.json").write_text(json.dumps(note), encoding="utf-8")
        assert processes.find(tmp_path) is None
        stale = processes.Running("gone", other.pid, tuple(note["command"]))  # type: ignore[arg-type]
        stale.signal(signal.SIGKILL)
        assert processes.stop([stale], PATIENCE_S) == []
        assert other.poll() is None
        other.communicate(timeout=PATIENCE_S)
    assert other.returncode == 0


def test_a_note_that_is_none_is_nobody(tmp_path: Path) -> None:
    for text in ("", "[]", "{}", '{"name": "a", "pid": "x", "command": []}'):
        (tmp_path / "process.json").write_text(text, encoding="utf-8")
        assert processes.find(tmp_path) is None


def test_a_process_that_is_just_starting_has_a_command_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a moment after a start, the system shows an empty command line, as it does of one that ended."""
    for name, state in (("self", "R"), ("41", "Z"), ("42", "R"), ("43", "R")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cmdline").write_bytes(b"")
        (tmp_path / name / "stat").write_text(f"{name} (a) b) {state} 1 1", encoding="utf-8")
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        (tmp_path / "42" / "cmdline").write_bytes(b"run\0fast\0")

    monkeypatch.setattr(processes, "PROC", tmp_path)
    monkeypatch.setattr(time, "sleep", sleep)
    assert processes.read_command(42) == ("run", "fast")
    assert len(slept) == 1
    assert processes.read_command(41) is None
    assert len(slept) == 1
    assert processes.read_command(43) is None
    assert len(slept) == 1 + processes.STARTING_LOOKS
    assert processes.read_command(44) is None


def test_who_does_not_stop_is_killed(tmp_path: Path) -> None:
    ignore = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print(1, flush=True); time.sleep(60)"
    )
    started = processes.start("deaf", [sys.executable, "-c", ignore], tmp_path, attended=False)
    while not (tmp_path / "log.txt").read_bytes():
        time.sleep(0.01)
    assert processes.stop([started], 0.2) == ["deaf"]
    assert started.exit_code == -signal.SIGKILL


@pytest.mark.parametrize("attended", [True, False])
def test_parties_outlive_who_started_them_unless_attended(tmp_path: Path, attended: bool) -> None:
    """The process that starts a cluster of one party is killed; only attended parties end with it."""
    script = (
        "import sys, time; from pathlib import Path;"
        "from veristream.kabis.cluster.cluster import Cluster, StartOptions;"
        "from veristream.kabis.cluster.folder import ClusterFolder;"
        "cluster = Cluster(ClusterFolder(Path(sys.argv[1]))); cluster.create(1);"
        f"cluster.start(StartOptions(attended={attended})); print('up', flush=True); time.sleep(60)"
    )
    with opened(tmp_path / "cluster") as run:
        starter = subprocess.Popen([sys.executable, "-c", script, str(run.data)], stdout=subprocess.PIPE)
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"up\n"
        parties = list(run.cluster.find().values())
        assert [party.name for party in parties] == ["validator-1", "storage-1"]
        starter.kill()
        starter.communicate()
        left = processes.wait_until(
            lambda: [party for party in parties if party.is_alive()], PATIENCE_S if attended else 0.5
        )
        assert len(left) == (0 if attended else 2)
        words = [processes.last_words(run.data / party.name)[0] for party in parties]
        assert not any("Traceback" in each for each in words)


def test_up_in_the_foreground_stops_its_parties(tmp_path: Path) -> None:
    data = tmp_path / "cluster"
    with opened(data) as run:
        words = ["kabis", "up", "--parties", "1", "--data", str(data)]
        up = subprocess.Popen([sys.executable, "-m", "veristream.cli", *words], stdout=subprocess.PIPE)
        assert up.stdout is not None
        assert b"1 validators and 1 storage parties answer" in up.stdout.readline()
        assert up.stdout.readline() == b"Ctrl-C stops it\n"
        parties = list(run.cluster.find().values())
        assert len(parties) == 2
        up.send_signal(signal.SIGINT)
        output, _ = up.communicate(timeout=PATIENCE_S)
        assert (up.returncode, output) == (0, b"stopped; all data is kept\n")
        assert not any(party.is_alive() for party in parties)


def test_folders_are_made_once_and_keys_are_private(tmp_path: Path) -> None:
    cluster = Cluster(ClusterFolder(tmp_path / "cluster"))
    genesis = cluster.create(7, StorageMode.PAPER)
    assert (genesis.faults, len(genesis.validators), len(genesis.storage)) == (2, 7, 3)
    assert cluster.create() == genesis
    keys = [path for path in (tmp_path / "cluster").rglob("*") if path.is_file() and "key" in str(path)]
    assert len(keys) == 7 + 3 + 3
    assert {os.stat(path).st_mode & 0o777 for path in keys} == {0o600}
    moved = cluster.create(port=0)
    assert moved.digest() == genesis.digest()
    assert moved != genesis
    cluster.folder.genesis_path.unlink()  # as if the machine had stopped in the middle of the first time
    again = cluster.create(7, StorageMode.PAPER)
    assert again.validator_keys == genesis.validator_keys


def test_faults_and_ports() -> None:
    assert [count_faults(parties) for parties in (1, 4, 7, 31)] == [0, 1, 2, 10]
    ports = draw_ports(40)
    assert len(set(ports)) == 40
    assert all(port in find_range() for port in ports)


def test_chaos_waits_for_a_liar_that_was_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not run while events are pushed, and so has lied about none of them."""
    push = chaos.push_under

    def push_without_the_liar(access: Access, *more: Any) -> Told:
        liar = Cluster(access.folder).find()["validator-1"]
        liar.signal(signal.SIGSTOP)
        told = push(access, *more)
        liar.signal(signal.SIGCONT)
        return told

    monkeypatch.setattr(chaos, "push_under", push_without_the_liar)
    with Cluster(ClusterFolder(tmp_path / "cluster")) as cluster:
        cluster.create()
        cluster.start()
        (trial,) = chaos.run_trials(cluster, [Fault.EQUIVOCATE], 200, lambda trial: None)
    assert (trial.acknowledged, trial.problems) == (200, ())
    assert trial.evidence[0].startswith("validator-1 caught in block ")


def test_chaos_tries_what_it_says(tmp_path: Path) -> None:
    with opened(tmp_path / "cluster") as run:
        done = run.do("chaos", "alter", "equivocate", "kill-producer", "--events", 200, "--json")
        trials = json.loads(done.output)
        assert [trial["fault"] for trial in trials] == [Fault.ALTER, Fault.EQUIVOCATE, Fault.KILL_PRODUCER]
        assert all(trial["problems"] == [] for trial in trials)
        assert [trial["acknowledged"] for trial in trials[:2]] == [200, 200]
        assert trials[2]["delivered"] >= trials[2]["acknowledged"] >= 200
        assert any(told.endswith("bad answers of storage-1") for told in trials[0]["evidence"])
        assert trials[1]["evidence"][0].startswith("validator-1 caught in block ")
        assert run.cluster.find() == {}
    assert run("chaos", "rain").told == (
        f"error: there is no fault 'rain'\nhint: choose one of {', '.join(Fault)}\n"
    )
