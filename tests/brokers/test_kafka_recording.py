"""Recordings of real Kafka: what each setting promises, and what not, as the plain checker finds it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.missing import is_missing
from tests.unit.recording.histories import read_back
from veristream.brokers.folder import list_brokers
from veristream.brokers.kafka import find_program
from veristream.errors import EnvironmentFailure
from veristream.history.events import NONE, Event, Operation, Outcome
from veristream.history.manifest import Manifest
from veristream.history.oracle.judge import judge
from veristream.history.properties import Property
from veristream.history.verdicts import Judgement, Word
from veristream.recording.kafka.running import RunningKafka, local_kafka
from veristream.recording.kafka.scenarios import elections, groups, retries, transactions
from veristream.recording.kafka.settings import read_settings
from veristream.recording.recording import Recording

pytestmark = [pytest.mark.brokers, pytest.mark.xdist_group("kafka-recording")]

HELD: dict[str, int] = {}
Scenario = Callable[[RunningKafka, Recording], None]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningKafka]:
    """Three brokers behind proxies; it takes them 6 s to notice that one is gone, whatever else runs."""
    try:
        find_program()
    except EnvironmentFailure as missing:
        is_missing(missing.render())
    settings = read_settings({"broker.broker.session.timeout.ms": "6000"})
    with local_kafka(tmp_path_factory.mktemp("recorded"), settings) as kafka:
        yield kafka


@dataclass(frozen=True, slots=True)
class Recorded:
    """A history and its judgements."""

    manifest: Manifest
    events: list[Event]
    judgements: dict[Property, Judgement]

    def anomalies(self, *asked: Property) -> list[dict[str, int]]:
        """The anomalies of properties that were decided."""
        found = [self.judgements[each] for each in asked]
        assert Word.NOT_OBSERVABLE not in {each.word for each in found}, found
        for each in found:
            assert (each.word is Word.HELD) == (not each.counts)
        return [dict(each.counts) for each in found]

    def sends(self, outcome: Outcome) -> set[int]:
        """The numbers of the messages that were sent with an outcome."""
        return {
            each.number
            for each in self.events
            if each.operation is Operation.SEND and each.outcome is outcome
        }

    def log(self) -> list[int]:
        """The numbers of the messages of partition 0, as the last reader read them."""
        (reader,) = (at for at, one in enumerate(self.manifest.processes) if one.name == "reader-0")
        return [
            each.number
            for each in self.events
            if each.operation is Operation.RECEIVE and (each.process, each.partition) == (reader, 0)
        ]


@pytest.fixture
def record(kafka: RunningKafka, tmp_path: Path) -> Callable[..., Recorded]:
    def work(scenario: Scenario, **settings: str) -> Recorded:
        flat = {key.replace("__", ".").replace("_", "."): value for key, value in settings.items()}
        kafka.settings = read_settings(flat)
        kafka.local.start()
        with Recording(tmp_path / "h", "kafka", scenario.__name__, flat) as recording:
            scenario(kafka, recording)
        manifest, events = read_back(tmp_path / "h")
        assert manifest.complete
        assert all(each.end_ns is not None for each in manifest.incidents)
        found = judge(manifest, events)
        return Recorded(manifest, events, dict(zip(Property, found, strict=True)))

    return work


Record = Callable[..., Recorded]


def test_with_acks_1_a_killed_leader_takes_acknowledged_messages_with_it(record: Record) -> None:
    found = record(
        elections.leader_is_killed,
        producer_acks="1",
        producer_enable_idempotence="false",
        topic_min_insync_replicas="2",
    )
    assert found.sends(Outcome.OK) == set(range(15))
    assert found.log() == [0, 1, 2, 3, 4]
    assert found.anomalies(Property.DELIVERED, Property.ONCE) == [{"lost write": 10}, HELD]
    kinds = Counter(each.kind for each in found.manifest.incidents)
    assert kinds == {"pause": 2, "kill": 1}


def test_with_acks_all_nothing_acknowledged_is_lost(record: Record) -> None:
    found = record(
        elections.leader_is_killed,
        producer_acks="all",
        producer_enable_idempotence="true",
        topic_min_insync_replicas="2",
    )
    assert found.sends(Outcome.OK) == set(range(15))
    assert found.log() == list(range(15))
    asked = (Property.DELIVERED, Property.ONCE, Property.ORDER, Property.ONE_OFFSET, Property.NOTHING_NEW)
    assert found.anomalies(*asked) == [HELD] * 5


def test_an_unclean_election_loses_what_the_new_leader_lacks(record: Record) -> None:
    found = record(
        elections.only_replica_in_sync_is_killed,
        producer_acks="all",
        topic_min_insync_replicas="1",
        topic_unclean_leader_election_enable="true",
    )
    assert found.sends(Outcome.OK) == set(range(15))
    assert found.log() == [0, 1, 2, 3, 4]
    assert found.anomalies(Property.DELIVERED) == [{"lost write": 10}]


def test_without_unclean_elections_the_partition_waits_for_its_leader(record: Record) -> None:
    found = record(
        elections.only_replica_in_sync_is_killed,
        producer_acks="all",
        topic_min_insync_replicas="1",
        topic_unclean_leader_election_enable="false",
    )
    assert found.sends(Outcome.OK) == set(range(15))
    assert found.log() == list(range(15))
    assert found.anomalies(Property.DELIVERED, Property.ONCE, Property.ORDER) == [HELD] * 3


def test_without_idempotence_a_cut_answer_doubles_messages(record: Record) -> None:
    found = record(retries.answers_are_cut, producer_enable_idempotence="false", producer_max_in_flight="5")
    log = found.log()
    twice = [number for number, times in Counter(log).items() if times == 2]
    assert set(log) == found.sends(Outcome.OK) == set(range(10))
    assert twice
    assert 1 in twice  # its answer was cut
    assert log != sorted(log)  # as soon as there are two: 1 2 1 2
    delivered, once = found.anomalies(Property.DELIVERED, Property.ONCE)
    assert (delivered, once) == (HELD, {"duplicate": len(twice)})


def test_an_idempotent_producer_doubles_nothing(record: Record) -> None:
    found = record(retries.answers_are_cut, producer_enable_idempotence="true")
    assert found.log() == list(range(10))
    assert found.anomalies(Property.DELIVERED, Property.ONCE, Property.ORDER) == [HELD] * 3


def test_without_idempotence_a_lost_request_comes_after_later_ones(record: Record) -> None:
    found = record(retries.request_is_lost, producer_enable_idempotence="false", producer_max_in_flight="5")
    log = found.log()
    assert sorted(log) == list(range(10))
    assert log.index(1) > log.index(2)
    (order,) = found.anomalies(Property.ORDER)
    assert order == {"nonmonotonic send": 1}  # between 1 and 2


def test_with_idempotence_it_does_not(record: Record) -> None:
    found = record(retries.request_is_lost, producer_enable_idempotence="true")
    assert found.log() == list(range(10))
    assert found.anomalies(Property.DELIVERED, Property.ONCE, Property.ORDER) == [HELD] * 3


def test_read_uncommitted_reads_what_is_aborted(record: Record) -> None:
    found = record(transactions.some_are_aborted, consumer_isolation_level="read_uncommitted")
    (counts,) = found.anomalies(Property.ABORTED)
    readers = [one.name for one in found.manifest.processes if one.isolation]
    assert readers == ["reader-live", "reader-0"]
    at_end = [
        each
        for each in found.events
        if each.operation is Operation.RECEIVE and found.manifest.processes[each.process].name == "reader-0"
    ]
    assert len(at_end) == 12
    live = [
        each.number for each in found.events if each.operation is Operation.RECEIVE and each not in at_end
    ]
    aborted = {2, 3, 6, 7, 10, 11}
    assert counts.pop("aborted read") == 6 + len(aborted & set(live))
    assert set(counts) <= {"precommitted read"}


def test_read_committed_does_not(record: Record) -> None:
    found = record(transactions.some_are_aborted, consumer_isolation_level="read_committed")
    assert found.sends(Outcome.OK) == set(range(12))
    assert found.log() == [0, 4, 8]
    asked = (Property.ABORTED, Property.WHOLE, Property.DELIVERED, Property.ORDER)
    assert found.anomalies(*asked) == [HELD] * 4


def test_a_fenced_producer_does_not_commit(record: Record) -> None:
    found = record(transactions.producer_is_fenced)
    opens = [
        each for each in found.events if (each.operation, each.outcome) == (Operation.OPEN, Outcome.OK)
    ]
    assert opens[0].epoch < opens[1].epoch
    ends = [each for each in found.events if each.operation is Operation.END_COMMIT and each.outcome]
    assert [(each.process, each.outcome, each.error) for each in ends] == [
        (0, Outcome.INDEFINITE, "_FENCED"),
        (1, Outcome.OK, ""),
    ]
    assert found.anomalies(Property.FENCED, Property.ABORTED, Property.WHOLE) == [HELD] * 3
    (only,) = found.log()
    received = [each for each in found.events if each.operation is Operation.RECEIVE]
    assert {each.producer for each in received} == {1}
    assert only == 0


def test_auto_commit_commits_what_nobody_processed(record: Record) -> None:
    found = record(groups.member_dies, consumer_enable_auto_commit="true")
    left = groups.MESSAGES - groups.PROCESSED
    assert found.anomalies(Property.PROCESSED) == [{"unprocessed": left}]
    assert found.anomalies(Property.EXCLUSIVE, Property.FORWARD, Property.DELIVERED) == [HELD] * 3


def test_manual_commits_commit_what_was_processed(record: Record) -> None:
    found = record(groups.member_dies, consumer_enable_auto_commit="false")
    asked = (Property.PROCESSED, Property.EXCLUSIVE, Property.FORWARD, Property.DELIVERED)
    assert found.anomalies(*asked) == [HELD] * 4
    assigned = [each for each in found.events if each.operation is Operation.ASSIGN]
    assert [each.offset for each in assigned] == [0, groups.PROCESSED]


def examples() -> list[str]:
    """The examples in the document: confluent-kafka's clients, and Java's."""
    text = (Path(__file__).parents[2] / "docs" / "record.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def test_the_example_of_the_document_records(
    kafka: RunningKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example, _ = examples()
    kafka.local.start()
    kafka.local.create_topic("orders", 3)
    monkeypatch.chdir(tmp_path)
    member = '"group.id": "billing"'
    assert member in example
    example = example.replace("127.0.0.1:9092", kafka.bootstrap)
    exec(example.replace(member, f'{member}, "auto.offset.reset": "earliest"'), {})
    manifest, events = read_back(tmp_path / "history")
    assert manifest.complete
    counted = Counter(each.operation.name for each in events if each.outcome is Outcome.OK)
    assert counted["SEND"] == counted["ACKNOWLEDGE"] == 1
    assert counted["RECEIVE"] == 2
    assert counted["ASSIGN"] == counted["REVOKE"] == 3
    ends = {each.partition for each in events if each.operation is Operation.READ_TO_END}
    assert ends == {0, 1, 2}, "once more after each message that comes behind an end"
    assert counted["CLOSE"] == 3


def test_offsets_in_a_transaction_are_committed_with_it(kafka: RunningKafka, tmp_path: Path) -> None:
    """The second transaction is aborted, so the next member starts after the first; it commits later on."""
    kafka.settings = read_settings({"consumer.enable.auto.commit": "false"})
    kafka.local.start()
    kafka.create_topic("piped-in")
    kafka.create_topic("piped-out")
    with Recording(tmp_path / "h", "kafka") as recording:
        source = kafka.producer(recording, "source")
        for number in range(4):
            source.produce("piped-in", b"%d" % number, partition=0)
        source.close()
        pipe = kafka.producer(recording, "pipe", transactional_id="pipe")
        pipe.init_transactions(30)
        first = kafka.member(recording, "member-0", "pipes")
        first.subscribe(["piped-in"])
        for aborts in (False, True):
            message = first.poll(30)
            assert message is not None and message.error() is None
            first.processed(message)
            pipe.begin_transaction()
            pipe.produce("piped-out", message.value(), partition=0)
            metadata = first.consumer_group_metadata()
            pipe.send_offsets_to_transaction(first.position(first.assignment()), metadata, 30)
            (pipe.abort_transaction if aborts else pipe.commit_transaction)(30)
        pipe.close()
        first.close()
        second = kafka.member(recording, "member-1", "pipes")
        second.subscribe(["piped-in"])
        message = second.poll(30)
        assert message is not None and message.value() == b"1"
        second.commit(message)  # asynchronous
        deadline_s = time.monotonic() + 30
        while second.last_commit("piped-in", 0) < 0 and time.monotonic() < deadline_s:
            second.poll(0.1)
        second.close()
        recording.finish()
    manifest, events = read_back(tmp_path / "h")
    ended = [
        (manifest.processes[each.process].name, each.outcome.name, each.offset, each.transaction)
        for each in sorted(events, key=lambda each: each.time_ns)
        if each.operation is Operation.COMMIT and each.outcome
    ]
    assert ended == [("pipe", "OK", 1, 0), ("pipe", "FAIL", 2, 1), ("member-1", "OK", 2, NONE)]
    calls = Counter(each.call for each in events if each.operation is Operation.COMMIT)
    assert set(calls.values()) == {2}
    assigned = [each.offset for each in events if each.operation is Operation.ASSIGN]
    assert assigned == [0, 1]
    (forward,) = judge(manifest, events, (Property.FORWARD,))
    assert (forward.word, forward.counts) == (Word.HELD, {})


def test_ctrl_c_leaves_a_history_and_no_broker(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "veristream.cli", "record", "kafka", "--brokers", "1"]
    child = subprocess.Popen(
        [*command, "--seconds", "600", "--rate", "100", "--to", "h"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline_s = time.monotonic() + 120
    while not (tmp_path / "h" / "events").exists() and child.poll() is None:
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
    time.sleep(2)
    (folder,) = tmp_path.glob("veristream-kafka-*")
    assert [each.pid is None for each in list_brokers(folder)] == [False, False]
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=120)
    assert (child.returncode, errors) == (130, "interrupted: h is a history, but not complete\n")
    assert not folder.exists()
    manifest, events = read_back(tmp_path / "h")
    assert not manifest.complete
    assert {each.operation for each in events} >= {Operation.SEND, Operation.RECEIVE, Operation.CLOSE}
    assert Operation.READ_TO_END not in {each.operation for each in events}
