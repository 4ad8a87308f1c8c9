"""Workloads and the schedules of faults."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.unit.recording.histories import read_back
from veristream.errors import EnvironmentFailure, ModelError
from veristream.recording.faults import KINDS, Fault, Faults, read_kinds, schedule
from veristream.recording.recording import Recording
from veristream.recording.workload import Load, Workload, run


class Broker:
    """Notes what faults do to it."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def kill(self, name: str) -> None:
        self.said.append(f"kill {name}")

    def pause(self, name: str) -> None:
        self.said.append(f"pause {name}")

    def resume(self, name: str) -> None:
        self.said.append(f"resume {name}")

    def start(self, names: Iterable[str] | None = None) -> None:
        self.said.append(f"start {' '.join(names or ())}")

    def cut(self, name: str) -> None:
        self.said.append(f"cut {name}")

    def delay(self, name: str, seconds: float) -> None:
        self.said.append(f"delay {name} {seconds}")

    def drop(self, name: str) -> None:
        self.said.append(f"drop {name}")

    def heal(self, name: str) -> None:
        self.said.append(f"heal {name}")


def wait(load: Load) -> None:
    load.wait(60.0)


def test_a_seed_determines_the_schedule() -> None:
    nodes = ("a", "b", "c")
    one = schedule(("kill", "cut"), nodes, 60.0, 7)
    assert one == schedule(("kill", "cut"), nodes, 60.0, 7)
    assert one != schedule(("kill", "cut"), nodes, 60.0, 8)
    assert {each.node for each in one} == set(nodes)
    assert [each.kind for each in one[:4]] == ["kill", "cut", "kill", "cut"]
    assert all(first.end_s < second.begin_s for first, second in pairwise(one))
    assert one[0].begin_s > 0
    assert one[-1].end_s < 60.0
    assert schedule((), nodes, 60.0, 7) == ()


@pytest.mark.parametrize("seconds", [0.5, 2.0, 5.0])
def test_a_short_load_has_a_fault_too(seconds: float) -> None:
    (first, *_) = schedule(("pause",), ("a",), seconds, 0)
    assert 0 < first.begin_s < first.end_s < seconds


def test_faults_are_read_by_name() -> None:
    assert read_kinds("kill, pause,cut") == ("kill", "pause", "cut")
    assert read_kinds("none") == read_kinds("") == ()
    with pytest.raises(ModelError, match="unknown fault `kil`") as wrong:
        read_kinds("kil")
    assert "kill" in wrong.value.hint


def test_each_fault_begins_ends_and_is_an_incident(tmp_path: Path) -> None:
    broker = Broker()
    plan = [Fault(kind, "n", 0.01 * at, 0.01 * at + 0.005) for at, kind in enumerate(KINDS)]
    with Recording(tmp_path / "h", "test") as recording:
        faults = Faults(recording, plan, broker, broker)
        done = threading.Event()
        workload = Workload({"c": wait}, done.set)
        run(recording, workload, Load(0.5), faults)
        assert done.is_set()
    manifest, _ = read_back(tmp_path / "h")
    assert [each.kind for each in manifest.incidents] == list(KINDS)
    assert all(each.end_ns is not None for each in manifest.incidents)
    assert broker.said == [
        "kill n", "start n", "pause n", "resume n",
        "cut n", "heal n", "delay n 0.5", "heal n", "drop n", "heal n",
    ]  # fmt: skip
    assert manifest.complete


def test_a_fault_under_way_ends_with_the_load(tmp_path: Path) -> None:
    broker = Broker()
    with Recording(tmp_path / "h", "test") as recording:
        faults = Faults(
            recording, [Fault("kill", "n", 0.0, 1e6), Fault("cut", "n", 1e6, 1e6)], broker, broker
        )
        run(recording, Workload({"c": lambda load: None}, lambda: None), Load(0.0), faults)
        assert broker.said in (["kill n", "start n"], [])


def test_a_fault_that_nobody_can_make_is_refused(tmp_path: Path) -> None:
    with Recording(tmp_path / "h", "test") as recording:
        with pytest.raises(ModelError, match="`cut` needs a proxy"):
            Faults(recording, [Fault("cut", "n", 0.0, 1.0)], Broker())
        with pytest.raises(ModelError, match="`kill` needs brokers"):
            Faults(recording, [Fault("kill", "n", 0.0, 1.0)])


def test_a_broker_that_does_not_come_back_fails_the_recording(tmp_path: Path) -> None:
    class Dead(Broker):
        def start(self, names: Iterable[str] | None = None) -> None:
            raise EnvironmentFailure("broker n did not start")

    def record() -> None:
        with Recording(tmp_path / "h", "test") as recording:
            faults = Faults(recording, [Fault("kill", "n", 0.0, 0.01)], Dead())
            run(
                recording,
                Workload({"c": wait}, lambda: None),
                Load(0.2),
                faults,
            )

    with pytest.raises(EnvironmentFailure, match="did not start"):
        record()
    assert not read_back(tmp_path / "h")[0].complete


def test_the_first_failure_of_a_client_ends_all(tmp_path: Path) -> None:
    ended = threading.Event()

    def wrong(load: Load) -> None:
        raise EnvironmentFailure("no broker answers")

    def patient(load: Load) -> None:
        while load.wait(60.0):
            pass
        ended.set()

    def record() -> None:
        with Recording(tmp_path / "h", "test") as recording:
            workload = Workload({"wrong": wrong, "patient": patient}, lambda: None)
            run(recording, workload, Load(3600.0), Faults(recording))

    with pytest.raises(EnvironmentFailure, match="no broker answers"):
        record()
    assert ended.is_set()
    assert not read_back(tmp_path / "h")[0].complete


def test_beats_end_with_the_load() -> None:
    load = Load(3600.0)
    found = []
    for beat in load.beats():
        found.append(beat)
        if beat == 4:
            load.stop()
    assert found == [0, 1, 2, 3, 4]
    assert list(Load(0.0).beats()) == []
