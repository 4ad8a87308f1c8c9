"""A script steers the transaction of a real client on real Kafka; a recording of it is audited."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.missing import is_missing
from veristream.brokers.kafka import find_program
from veristream.brokers.proxy.kafka import Key
from veristream.brokers.proxy.pieces import let_pass
from veristream.brokers.proxy.script import (
    AwaitHeld,
    AwaitPassed,
    Match,
    Release,
    Rule,
    Script,
    read_script,
    write_script,
)
from veristream.brokers.proxy.steering import Steering, WaitedTooLong
from veristream.errors import EnvironmentFailure
from veristream.history.job.run import Options, audit_folder
from veristream.history.properties import Property
from veristream.history.report.html import render_audit
from veristream.history.verdicts import Word
from veristream.recording.kafka.late_write.observing import Observer
from veristream.recording.kafka.reading import read_to_end
from veristream.recording.kafka.running import RunningKafka, local_kafka
from veristream.recording.kafka.settings import read_settings
from veristream.recording.kafka.workloads import payload, produce
from veristream.recording.recording import Recording

pytestmark = [pytest.mark.brokers, pytest.mark.xdist_group("kafka-steering")]

PATIENCE_S = 60.0
CLIENT, TRANSACTIONAL = "producer-0", "t-1"
TRUSTING = {"broker.transaction.partition.verification.enable": "false"}

LATE = Match(key=Key.PRODUCE, transactional_id=TRANSACTIONAL, epoch=0)
ABORTED = Match("to client", key=Key.END_TXN, transactional_id=TRANSACTIONAL, committed=False, error=0)
SCRIPT = Script(
    (
        Rule("late", "hold", LATE),
        AwaitHeld("late", PATIENCE_S),
        AwaitPassed(ABORTED, PATIENCE_S),
        Release("late"),
        AwaitPassed(Match("to client", key=Key.PRODUCE, client=CLIENT, error=0), PATIENCE_S),
    )
)
"""The write arrives when its transaction has been aborted, and a broker that does not verify takes it."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningKafka]:
    """One broker, which trusts producers, behind a proxy."""
    try:
        find_program()
    except EnvironmentFailure as missing:
        is_missing(missing.render())
    with local_kafka(tmp_path_factory.mktemp("steered"), read_settings(TRUSTING), 1) as kafka:
        yield kafka
        kafka.proxies.decide = let_pass


def test_a_late_write_by_a_script_is_recorded_and_seen_by_an_audit(
    kafka: RunningKafka, tmp_path: Path
) -> None:
    kafka.create_topic("late")
    with Recording(tmp_path / "h", "kafka", "a late write") as recording:
        own = {"transactional_id": TRANSACTIONAL, "message_timeout_ms": "1500"}
        client = kafka.producer(recording, CLIENT, **own)
        kafka.proxies.decide = steering = Steering(recording)
        client.init_transactions(PATIENCE_S)
        hold, *until_aborted, release, taken = read_script(write_script(SCRIPT)).steps
        steering.perform(hold)
        script = threading.Thread(target=lambda: [steering.perform(step) for step in until_aborted])
        script.start()
        client.begin_transaction()
        produce(client, "late", payload(0), 0)
        client.poll(0)
        held = steering_held(steering)
        client.abort_transaction(PATIENCE_S)
        script.join(PATIENCE_S)
        assert not script.is_alive()
        observer = Observer(kafka, "late")
        observer.wait_beyond(0, PATIENCE_S)  # the marker comes a moment after the answer
        steering.perform(release)
        steering.perform(taken)
        client.begin_transaction()
        produce(client, "late", payload(1), 0)
        client.commit_transaction(PATIENCE_S)
        client.close(PATIENCE_S)
        observer.wait_stable(PATIENCE_S)
        reader = kafka.reader(recording, "reader-0", "read_committed")
        read_to_end(recording, reader, "late", [0])
        reader.close()
        steering.end()
        recording.finish()
    assert held == (("late", 0),)
    given = steering.wait_passed(Match("to client", key=Key.INIT_PRODUCER_ID, error=0), 1.0)
    assert given.header is not None and given.header.given is not None
    producer, epoch = given.header.given
    about = [
        (Key(each.header.request.key), one.producer_id, one.epoch, one.committed)
        for each in steering.passed
        if each.direction == "to broker" and each.header is not None
        for one in each.header.transactions
        if one.transactional_id == TRANSACTIONAL and one.producer_id is not None
    ]
    assert epoch == 0 and set(about) == {
        (Key.ADD_PARTITIONS_TO_TXN, producer, 0, None),
        (Key.END_TXN, producer, 0, False),
        (Key.PRODUCE, producer, 0, None),
        (Key.INIT_PRODUCER_ID, producer, 0, None),  # a message timed out: the client wants the next epoch
        (Key.ADD_PARTITIONS_TO_TXN, producer, 1, None),
        (Key.PRODUCE, producer, 1, None),
        (Key.END_TXN, producer, 1, True),
    }
    assert about.index((Key.END_TXN, producer, 0, False)) < about.index((Key.PRODUCE, producer, 0, None))
    audit = audit_folder(tmp_path / "h", list(Property), Options(with_timeline=True))
    [incident] = audit.manifest.incidents
    assert (incident.kind, incident.target) == ("hold PRODUCE", "broker-1")
    assert incident.end_ns is not None and incident.begin_ns < incident.end_ns
    assert incident.details["producer id"] == str(producer)
    assert incident.details["released"] == "when told"
    violated = {each.property for each in audit.judgements if each.word is Word.VIOLATED}
    assert violated == {Property.ABORTED}
    page = render_audit(audit)
    assert "hold PRODUCE broker-1, until" in page and "rule: late; match: " in page


def steering_held(steering: Steering) -> tuple[tuple[str, int], ...]:
    """Waits for what the script holds; returns the name of the rule and the message's epoch."""
    passed = steering.wait_passed(Match("to client", key=Key.ADD_PARTITIONS_TO_TXN, error=0), PATIENCE_S)
    assert passed.header is not None
    held = steering.wait_held("late", PATIENCE_S)
    assert held.header is not None and steering.held() == ("late",)
    return tuple((held.rule, each.epoch or 0) for each in held.header.transactions)


def test_a_script_that_waits_in_vain_says_what_came_instead(kafka: RunningKafka, tmp_path: Path) -> None:
    kafka.create_topic("vain")
    with Recording(tmp_path / "h", "kafka") as recording:
        client = kafka.producer(recording, CLIENT)
        kafka.proxies.decide = steering = Steering(recording)
        threading.Timer(0.2, lambda: produce(client, "vain", payload(0), 0)).start()
        with pytest.raises(WaitedTooLong) as failure:
            steering.run(Script((AwaitPassed(LATE, 3.0),)))
        steering.end()
        client.close(PATIENCE_S)
    assert failure.value.message.startswith(
        "waited 3 s in vain for a message to broker, key PRODUCE, transactional id t-1, epoch 0; meanwhile"
    )
    came = [each.header for each in failure.value.meanwhile if each.header is not None]
    assert (Key.PRODUCE, CLIENT) in {(each.request.key, each.request.client) for each in came}
    with Recording(tmp_path / "after", "kafka") as recording:  # nothing is in the way of who comes next
        client = kafka.producer(recording, CLIENT)
        produce(client, "vain", payload(1), 0)
        client.close(PATIENCE_S)
    assert recording.events == 3  # SEND, its end, CLOSE
