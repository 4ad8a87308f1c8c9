"""Recording real NSQ: scenarios whose outcome is known, and what an audit says of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.missing import is_missing
from tests.unit.recording.histories import read_back
from veristream.brokers.nsq.build import find_programs
from veristream.brokers.nsq.nodes import NsqNodes
from veristream.errors import EnvironmentFailure, ModelError
from veristream.history.events import Event, Operation, Outcome
from veristream.history.manifest import Manifest
from veristream.history.properties import Property
from veristream.recording.nsq.clients import Node
from veristream.recording.nsq.draining import tell_left
from veristream.recording.nsq.record import Settings, find_nodes, record_nsq
from veristream.recording.nsq.scenarios import (
    Kill,
    record_kill,
    record_ready,
    record_timeouts,
    staged,
    take,
)
from veristream.recording.nsq.workload import Plan

pytestmark = [pytest.mark.brokers, pytest.mark.xdist_group("nsq")]

DELIVERED, ONCE, BOUNDED, FINAL = Property.DELIVERED, Property.ONCE, Property.BOUNDED, Property.FINAL


@pytest.fixture(autouse=True)
def programs() -> None:
    try:
        find_programs()
    except EnvironmentFailure as missing:
        is_missing(missing.render())


Message = tuple[int, int]


@dataclass
class Seen:
    """What was recorded, by message."""

    manifest: Manifest
    events: list[Event]

    def of(self, operation: Operation, outcome: Outcome = Outcome.OK) -> Counter[Message]:
        chosen = [each for each in self.events if (each.operation, each.outcome) == (operation, outcome)]
        return Counter((each.producer, each.number) for each in chosen)

    @property
    def lost(self) -> set[Message]:
        return set(self.of(Operation.SEND)) - set(self.of(Operation.RECEIVE))

    @property
    def twice(self) -> set[Message]:
        return {message for message, count in self.of(Operation.RECEIVE).items() if count == 2}


def record(folder: Path, work: Callable[[Path], None]) -> Seen:
    work(folder / "h")
    seen = Seen(*read_back(folder / "h"))
    assert seen.manifest.complete
    assert max(seen.of(Operation.RECEIVE).values(), default=1) <= 2
    return seen


def assert_verdicts(seen: Seen, expected: Mapping[Property, Mapping[str, int] | None]) -> None:
    """Exactly these anomalies, and the properties without any held; None may be either."""
    oracle = pytest.importorskip("veristream.history.oracle.judge", reason="the plain checker is not there")
    for each in oracle.judge(seen.manifest, seen.events):
        if each.property in expected:
            counts = expected[Property(each.property)]
            if counts is None:
                continue
            assert (each.property, dict(each.counts)) == (each.property, dict(counts))
            assert each.word.value == ("violated" if counts else "held")
        else:
            assert not each.counts


@pytest.mark.parametrize(
    ("kill", "lost"),
    [
        (Kill(), 100),
        (Kill(how="stop"), 0),
        (Kill(mem_queue_size=0), 100),
        (Kill(mem_queue_size=0, wait_s=3), 0),
        (Kill(mem_queue_size=0, sync_every=1), 0),
        (Kill(mem_queue_size=0, sync_every=1, unread=5), 5),
    ],
    ids=["memory", "stop", "disk at once", "disk after 3 s", "disk in sync", "under way"],
)
def test_what_a_kill_loses(tmp_path: Path, kill: Kill, lost: int) -> None:
    seen = record(tmp_path, lambda folder: record_kill(folder, kill))
    assert len(seen.of(Operation.SEND)) == 100
    assert (len(seen.lost), len(seen.twice)) == (lost, 0)
    assert [(each.kind, each.target) for each in seen.manifest.incidents] == [(kill.how, "nsqd-1")]
    if lost:
        assert_verdicts(seen, {DELIVERED: {"lost write": lost}})
    else:
        assert_verdicts(seen, {DELIVERED: {}, ONCE: {}, FINAL: {}})


def test_what_was_received_and_not_finished_never_comes_again(tmp_path: Path) -> None:
    """No check calls it lost, since the consumer received it."""
    kill = Kill(mem_queue_size=0, sync_every=1, held=5)
    seen = record(tmp_path, lambda folder: record_kill(folder, kill))
    assert (len(seen.lost), len(seen.twice)) == (0, 0)
    assert len(set(seen.of(Operation.SEND)) - set(seen.of(Operation.ACKNOWLEDGE))) == 5
    assert_verdicts(seen, {DELIVERED: {}, ONCE: {}, FINAL: {}})


def test_what_was_finished_comes_again_after_a_kill(tmp_path: Path) -> None:
    """nsqd had not written down how far it had read its file."""
    kill = Kill(mem_queue_size=0, synced=True, finished=5)
    seen = record(tmp_path, lambda folder: record_kill(folder, kill))
    assert (len(seen.lost), len(seen.twice)) == (0, 5)
    assert_verdicts(
        seen, {DELIVERED: {}, ONCE: {"duplicate": 5}, FINAL: {"zombie delivery": 5}, BOUNDED: {}}
    )


def test_what_a_topic_had_given_its_channel_comes_twice_after_a_kill(tmp_path: Path) -> None:
    """Both have it in their files. Some copies are there again before the first one is finished."""
    kill = Kill(mem_queue_size=0, synced=True, more=100)
    seen = record(tmp_path, lambda folder: record_kill(folder, kill))
    assert len(seen.of(Operation.SEND)) == 200
    assert (len(seen.lost), len(seen.twice)) == (0, 100)
    assert_verdicts(seen, {DELIVERED: {}, ONCE: {"duplicate": 100}, FINAL: None, BOUNDED: {}})


def test_a_timeout_delivers_again_and_refuses_the_late_finish(tmp_path: Path) -> None:
    seen = record(tmp_path, record_timeouts)
    assert (len(seen.lost), len(seen.twice)) == (0, 10)
    failed = [each for each in seen.events if each.outcome is Outcome.FAIL]
    assert {each.error for each in failed} == {"E_FIN_FAILED ID not in flight"}
    assert seen.of(Operation.ACKNOWLEDGE, Outcome.FAIL) == seen.of(Operation.ACKNOWLEDGE)
    attempts = Counter(each.attempt for each in seen.events if each.operation is Operation.RECEIVE)
    assert attempts == {1: 10, 2: 10}
    assert_verdicts(seen, {DELIVERED: {}, ONCE: {"duplicate": 10}, FINAL: {}, BOUNDED: {}})


def test_nsqd_sends_no_more_than_rdy(tmp_path: Path) -> None:
    seen = record(tmp_path, record_ready)
    limits = [each.number for each in seen.events if each.operation is Operation.READY]
    assert limits == [1, 0, 5, 0, 2, 0, 10, 0, 100]
    assert len(seen.of(Operation.RECEIVE)) == 118
    assert_verdicts(seen, {DELIVERED: {}, BOUNDED: {}, FINAL: {}})


def test_what_is_given_back_comes_again_and_the_end_waits_for_it(tmp_path: Path) -> None:
    """One at once, one later: the channel is not read to its end while a message is deferred."""

    def work(folder: Path) -> None:
        with staged(folder, {}) as stage:
            stage.publish(3)
            consumer = stage.consume()
            consumer.ready(3)
            first, second, third = take(consumer, 3)
            consumer.requeue(first)
            consumer.requeue(second, delay_ms=2000)
            consumer.finish(third)
            (again,) = take(consumer, 1)
            assert (again.id, again.attempts) == (first.id, 2)
            consumer.finish(again)
            assert consumer.settle()
            consumer.close()
            found = stage.running.depths("nsqd-1", "orders")
            assert found is not None and tell_left(found, "billing") == "1 deferred"
            stage.read()

    seen = record(tmp_path, work)
    assert sorted(seen.of(Operation.REJECT).items()) == [((0, 0), 1), ((0, 1), 1)]
    assert seen.of(Operation.ACKNOWLEDGE) == {(0, number): 1 for number in range(3)}
    assert seen.twice == {(0, 0), (0, 1)}
    assert_verdicts(seen, {DELIVERED: {}, ONCE: {"duplicate": 2}, FINAL: {}, BOUNDED: {}})


def test_a_workload_survives_kills_and_pauses(tmp_path: Path) -> None:
    """Two channels, several messages in a command; each channel gets every message."""
    settings = Settings(
        mem_queue_size=0,
        sync_every=1,
        plan=Plan(channels=("billing", "audit"), batch=3),
        faults=("kill", "pause"),
        seconds=6,
        rate=120,
        seed=7,
    )
    record_nsq(tmp_path / "h", settings)
    seen = Seen(*read_back(tmp_path / "h"))
    manifest = seen.manifest
    assert manifest.complete and manifest.producers_complete
    assert (manifest.groups, manifest.nodes) == (("billing", "audit"), ("nsqd-1", "nsqd-2"))
    assert [each.kind for each in manifest.incidents[:2]] == ["kill", "pause"]
    assert manifest.settings["sync-every"] == "1"
    ends = Counter(each.outcome for each in seen.events if each.operation is Operation.READ_TO_END)
    assert ends == {Outcome.INVOKE: 4, Outcome.OK: 4}
    assert len(seen.of(Operation.SEND)) > 200
    # What was under way to a consumer or from topic to channel at a kill may be lost, and only that.
    kills = sum(each.kind == "kill" for each in manifest.incidents)
    last_ns = max(each.end_ns or 0 for each in manifest.incidents)
    late = {
        (each.producer, each.number)
        for each in seen.events
        if each.operation is Operation.SEND and each.outcome is Outcome.OK and each.time_ns > last_ns
    }
    for group in range(2):
        received = {
            (each.producer, each.number)
            for each in seen.events
            if each.operation is Operation.RECEIVE and each.group == group
        }
        assert len(set(seen.of(Operation.SEND)) - received) <= kills * (settings.plan.ready + 1)
        assert late <= received


def find_nodes_or_none(lookupd: str) -> list[Node]:
    try:
        return find_nodes(lookupd)
    except EnvironmentFailure:
        return []


def test_nsqd_that_run_already_are_recorded(tmp_path: Path) -> None:
    with NsqNodes(tmp_path / "nodes") as nodes:
        nodes.create(2)
        nodes.start()
        found = sorted(nodes.entrances())
        while len(find_nodes_or_none(nodes.lookup)) < 2:
            time.sleep(0.05)
        record_nsq(tmp_path / "h", Settings(lookupd=nodes.lookup, seconds=1, rate=50))
    seen = Seen(*read_back(tmp_path / "h"))
    assert sorted(seen.manifest.nodes) == found
    assert seen.manifest.complete and not seen.manifest.producers_complete
    assert len(seen.of(Operation.SEND)) > 10
    assert not seen.lost


def test_a_lookupd_that_knows_nobody_is_named(tmp_path: Path) -> None:
    with NsqNodes(tmp_path / "nodes") as nodes:
        nodes.create(1)
        nodes.start(["nsqlookupd-1"])
        with pytest.raises(EnvironmentFailure, match="knows no nsqd"):
            record_nsq(tmp_path / "h", Settings(lookupd=nodes.lookup))
    with pytest.raises(EnvironmentFailure, match="nsqlookupd does not answer"):
        record_nsq(tmp_path / "h", Settings(lookupd=nodes.lookup))


def test_an_option_that_nsqd_does_not_have_is_told(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="flag provided but not defined"):
        record_nsq(tmp_path / "h", Settings(options={"sync-evry": "1"}))
    assert not (tmp_path / "h").exists()


def test_an_interrupt_leaves_a_whole_history_and_no_nsqd(tmp_path: Path) -> None:
    script = (
        "from pathlib import Path; from veristream.recording.nsq.record import *\n"
        f"record_nsq(Path({str(tmp_path / 'h')!r}), Settings(seconds=60, rate=100))\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    running = subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stderr=subprocess.PIPE, start_new_session=True
    )
    while not list(tmp_path.glob("h/events/*/*")) and running.poll() is None:
        time.sleep(0.05)
    time.sleep(1.5)
    running.send_signal(signal.SIGINT)
    assert running.stderr is not None
    said = running.stderr.read()
    assert running.wait(30) != 0
    assert b"KeyboardInterrupt" in said
    manifest, events = read_back(tmp_path / "h")
    assert not manifest.complete
    assert any(each.operation is Operation.SEND for each in events)
    assert [path.name for path in tmp_path.iterdir()] == ["h"]  # nsqd's folder is gone
    assert nsqd_in(tmp_path) == []


def nsqd_in(folder: Path) -> list[str]:
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(path.read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return [each for each in commands if "nsqd" in each and str(folder) in each]


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (Settings(plan=Plan(topic="a b")), "no topic or channel `a b`"),
        (Settings(plan=Plan(channels=())), "there must be one"),
        (Settings(plan=Plan(channels=("a", "a"))), "must be different"),
        (Settings(lookupd="127.0.0.1:1", sync_every=1), "--lookupd uses nsqd that run already"),
        (Settings(lookupd="127.0.0.1:1", faults=("kill",)), "--lookupd uses nsqd that run already"),
        (Settings(faults=("drop",)), "nsqd cannot get the fault `drop`"),
        (Settings(options={"msg-timeout": "1s"}), "--set msg-timeout has an option of its own"),
    ],
)
def test_what_cannot_be_recorded_is_a_mistake(tmp_path: Path, settings: Settings, error: str) -> None:
    with pytest.raises(ModelError, match=error):
        record_nsq(tmp_path / "h", settings)
    assert not (tmp_path / "h").exists()
