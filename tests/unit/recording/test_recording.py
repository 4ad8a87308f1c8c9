"""A recording: journals of clients become a history, also when it is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.unit.recording.histories import read_back
from veristream.errors import EnvironmentFailure, ModelError
from veristream.history.events import NONE, Event, Operation, Outcome
from veristream.history.manifest import Process, Stream
from veristream.history.store.writer import HistoryWriter
from veristream.recording.digest import digest
from veristream.recording.recording import Recording

SEND = Operation.SEND


def brief(event: Event) -> tuple[int, int, str, str, int, int]:
    first, operation, outcome = event.call // 2, event.operation.name, event.outcome.name
    return event.index, first, operation, outcome, event.partition, event.offset


def test_what_clients_did_is_read_back(tmp_path: Path) -> None:
    with Recording(tmp_path / "h", "test", "sends", {"acks": "1"}) as recording:
        orders = recording.stream("orders")
        jobs = recording.stream("jobs", Stream("jobs", offsets=False, attempts_max=5))
        group = recording.group("workers")
        node = recording.node("broker-1")
        producer = recording.journal("producer-0")
        consumer = recording.journal("consumer-0", "read_committed", group)
        first = producer.invoke(SEND, stream=orders, producer=0, number=0, digest=7)
        second = producer.invoke(SEND, stream=orders, producer=0, number=1, digest=8)
        producer.ok(second, partition=1, offset=5, node=node)
        producer.fail(first, "REJECTED", partition=1)
        producer.note(Operation.CLOSE)
        consumer.note(Operation.RECEIVE, stream=jobs, partition=0, producer=0, number=9, attempt=1)
        with recording.incident("kill", "broker-1"):
            pass
        number = recording.begin_incident("hold", "broker-1", {"rule": "late"})
        recording.end_incident(number, {"released": "when told"})
        assert (recording.stream("orders"), recording.stream("jobs")) == (orders, jobs)
        recording.finish()
    manifest, events = read_back(tmp_path / "h")
    assert [brief(each) for each in events] == [
        (0, 0, "SEND", "INVOKE", 1, NONE),
        (1, 1, "SEND", "INVOKE", 1, NONE),
        (2, 1, "SEND", "OK", 1, 5),
        (3, 0, "SEND", "FAIL", 1, NONE),
        (4, 4, "CLOSE", "OK", NONE, NONE),
        (0, 0, "RECEIVE", "OK", 0, NONE),
    ]
    assert [each.number for each in events] == [0, 1, 1, 0, NONE, 9]
    assert [each.digest for each in events] == [7, 8, 8, 7, 0, 0]
    assert [each.error for each in events] == ["", "", "", "REJECTED", "", ""]
    assert [each.node for each in events] == [NONE, NONE, node, NONE, NONE, NONE]
    assert events[0].wall_us > 1_700_000_000_000_000
    host = manifest.processes[0].host
    assert host
    assert manifest.processes == (
        Process("producer-0", host),
        Process("consumer-0", host, "read_committed", group),
    )
    assert manifest.streams == (Stream("orders"), Stream("jobs", offsets=False, attempts_max=5))
    assert (manifest.source, manifest.workload, manifest.settings) == ("test", "sends", {"acks": "1"})
    incident, held = manifest.incidents
    assert held.details == {"rule": "late", "released": "when told"}
    assert (incident.kind, incident.target) == ("kill", "broker-1")
    assert incident.end_ns is not None
    assert 0 < incident.begin_ns <= incident.end_ns
    assert manifest.complete


def test_a_call_under_way_at_the_end_was_invoked(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "h", "test")
    journal = recording.journal("p")
    call = journal.invoke(SEND, stream=recording.stream("s"), producer=0, number=0)
    recording.close(complete=False)
    journal.ok(call, partition=0, offset=0)  # a late callback
    journal.note(Operation.CLOSE)
    manifest, events = read_back(tmp_path / "h")
    assert [brief(each) for each in events] == [(0, 0, "SEND", "INVOKE", NONE, NONE)]
    assert not manifest.complete


def test_a_call_ends_once(tmp_path: Path) -> None:
    with Recording(tmp_path / "h", "test") as recording:
        journal = recording.journal("p")
        call = journal.invoke(SEND, stream=recording.stream("s"), producer=0, number=0)
        journal.indefinite(call, "TIMED_OUT")
        with pytest.raises(ValueError, match="has ended before"):
            journal.ok(call)


def test_threads_share_a_journal(tmp_path: Path) -> None:
    """Callbacks of a client may run in a thread of the library: indexes and times still agree."""
    with Recording(tmp_path / "h", "test") as recording:
        stream = recording.stream("s")
        journal = recording.journal("p")

        def work(partition: int) -> None:
            for number in range(2000):
                call = journal.invoke(SEND, stream=stream, producer=0, number=number)
                journal.ok(call, partition=partition, offset=number)

        threads = [threading.Thread(target=work, args=(each,)) for each in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        recording.finish()
    _, events = read_back(tmp_path / "h")
    assert len(events) == 12_000
    calls = {(each.call, each.partition, each.number) for each in events}
    assert len(calls) == 6000
    assert recording.events == 12_000


def test_several_notes_of_one_call(tmp_path: Path) -> None:
    with Recording(tmp_path / "h", "test") as recording:
        stream = recording.stream("s")
        journal = recording.journal("c")
        call = journal.begin()
        for offset in (3, 4):
            journal.note(Operation.RECEIVE, call, stream=stream, partition=0, offset=offset)
        journal.note(Operation.RECEIVE, stream=stream, partition=0, offset=5)
    _, events = read_back(tmp_path / "h")
    assert [(each.call, each.offset) for each in events] == [(1, 3), (1, 4), (4, 5)]


def test_an_exception_leaves_an_incomplete_history(tmp_path: Path) -> None:
    def record() -> None:
        with Recording(tmp_path / "h", "test") as recording:
            recording.journal("p").note(Operation.CLOSE)
            recording.finish()
            raise RuntimeError("the workload failed")

    with pytest.raises(RuntimeError, match="the workload failed"):
        record()
    manifest, events = read_back(tmp_path / "h")
    assert (manifest.complete, len(events)) == (False, 1)


def test_a_folder_with_a_history_is_refused(tmp_path: Path) -> None:
    Recording(tmp_path / "h", "test").close(complete=True)
    with pytest.raises(ModelError, match="already contains a history"):
        Recording(tmp_path / "h", "test")


def test_what_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise EnvironmentFailure("the disk is full")

    recording = Recording(tmp_path / "h", "test")
    monkeypatch.setattr(HistoryWriter, "append_columns", full)
    recording.journal("p").note(Operation.CLOSE)
    with pytest.raises(EnvironmentFailure, match="the disk is full"):
        recording.close(complete=True)
    assert not (tmp_path / "h" / "history.json").exists()


INTERRUPTED = """
import sys, time
from pathlib import Path
from veristream.history.events import Operation
from veristream.recording.recording import Recording

with Recording(Path(sys.argv[1]), "test") as recording:
    stream = recording.stream("s")
    journal = recording.journal("p")
    number = 0
    while True:
        time.sleep(0.0001)
        call = journal.invoke(Operation.SEND, stream=stream, producer=0, number=number)
        journal.ok(call, partition=number % 3, offset=number // 3)
        number += 1
        if number == 1000:
            print("going", flush=True)
"""


def test_an_interrupt_leaves_a_whole_history(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path / "h")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "going\n"
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate()
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    manifest, events = read_back(tmp_path / "h")
    assert not manifest.complete
    assert len(events) >= 2000
    ended = {each.number for each in events if each.outcome is Outcome.OK}
    assert len({each.number for each in events if each.outcome is Outcome.INVOKE} - ended) <= 1


FORGOTTEN = """
import sys
from pathlib import Path
from veristream.history.events import Operation
from veristream.recording.recording import Recording

recording = Recording(Path(sys.argv[1]), "test")
recording.journal("p").note(Operation.CLOSE)
recording.finish()
"""


def test_a_program_that_ends_leaves_what_it_recorded(tmp_path: Path) -> None:
    """It does not hang either, although a thread writes."""
    done = subprocess.run(
        [sys.executable, "-c", FORGOTTEN, str(tmp_path / "h")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    manifest, events = read_back(tmp_path / "h")
    assert (manifest.complete, len(events)) == (False, 1)


def test_digests_differ_and_are_never_0() -> None:
    assert digest(b"a") != digest(b"b")
    assert digest(b"") == digest(None) == 1
    assert digest(b"a") == digest(bytes([97]))
