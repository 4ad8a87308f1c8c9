"""A write is held back until its transaction is aborted, and then arrives: what does the broker make of it?

    for cell, late, evidence in run_cells(folder, [Cell("java", 2, verification=True)]):
        ...

The write of the first transaction waits in a proxy. The client gives it up and aborts; then it is let go,
before or in the next transaction of the same producer, which commits that one. Others write, so that the
log grows, and readers of committed records read. A recording of each cell can be audited.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from veristream.brokers.java.process import JavaError
from veristream.brokers.proxy.header import Header
from veristream.brokers.proxy.pieces import let_pass
from veristream.errors import EnvironmentFailure
from veristream.recording.kafka.java import RecordedJavaProducer
from veristream.recording.kafka.late_write.cell import Cell, Evidence, LateWrite
from veristream.recording.kafka.late_write.observing import Observer, Offsets
from veristream.recording.kafka.late_write.steering import HoldWrite
from veristream.recording.kafka.outcomes import error_of, name_of
from veristream.recording.kafka.producer import RecordedProducer
from veristream.recording.kafka.reading import read_to_end
from veristream.recording.kafka.running import RunningKafka, local_kafka
from veristream.recording.kafka.workloads import new_topic
from veristream.recording.recording import Recording

PATIENCE_S: Final = 30.0
GIVEN_UP_MS: Final = 1500
"""After so long the client gives its message up."""

CALLBACK_MS: Final = 1000
"""How long a callback runs in which the transaction is aborted."""

NOTICE_S: Final = 0.5
"""How long a client may take to draw its conclusions from a failure after it has told it."""

SETTLE_S: Final = 0.5
"""How long the coordinator may take to note that all markers are written."""

ARRIVAL_S: Final = 5.0
"""How long the broker may take to answer the late write."""

STABLE_S: Final = 3.0
"""A partition that is not stable after so long hangs."""

IMPLICIT: Final = 12
"""From this version on, Produce adds its partition to the transaction. Before, the client has added it, so
that it gets a marker, which may come after the answer to the abort."""

CLIENT: Final = "producer-0"
BEFORE, LATE, PLAIN, COMMITTED, NEXT = "before", "late", "plain", "committed", "next"

Producer = RecordedProducer | RecordedJavaProducer


def run_cells(folder: Path, cells: Iterable[Cell]) -> Iterator[tuple[Cell, LateWrite, Evidence]]:
    """Runs each cell on a broker of its own, which adjacent cells share if they can.

    The folder gets the clusters, and a history `N` of each cell. Raises ModelError for cells that cannot
    be, and EnvironmentFailure.
    """
    chosen = list(cells)
    for each in chosen:
        each.check()
    number = 0
    for key, same in groupby(chosen, lambda each: (each.broker, each.broker_settings)):
        version, settings = key
        with local_kafka(folder / f"kafka-{number}", settings, 1, version=version) as kafka:
            for cell in same:
                place = folder / str(number)
                flat = {**settings.flat(), "client": cell.client}
                with Recording(place, "kafka", "late-write", flat) as recording:
                    late, evidence = write_late(kafka, recording, cell)
                    recording.finish()
                number += 1
                yield cell, late, evidence


def write_late(kafka: RunningKafka, recording: Recording, cell: Cell) -> tuple[LateWrite, Evidence]:
    """Runs a cell on a broker that is as the cell says; the recording is left to be finished.

    Raises EnvironmentFailure if the client sends nothing, or the broker does not answer the late write.
    """
    topic = new_topic("late-write")
    kafka.create_topic(topic)
    stage = _Stage(kafka, recording, topic, Observer(kafka, topic))
    client = _open(kafka, recording, cell, topic)
    if cell.written_before:
        client.begin_transaction()
        _send(client, topic, BEFORE)
        client.commit_transaction(PATIENCE_S)
    hold = HoldWrite(CLIENT)
    kafka.proxies.decide = hold
    try:
        with recording.incident("delay", kafka.local.leader(topic)):
            gave_up, aborted = _give_up(stage, client, hold, in_callback=cell.in_callback)
            hold.expect_next()
            committed = _join(stage, client, hold) if cell.in_next else _arrive(hold)
        first, second = _grow(stage)
        read = stage.observer.read_committed()
        if not cell.in_next:
            hold.release_next()
            committed = _attempt(lambda: _commit_next(client, topic))
    finally:
        hold.release()
        hold.release_next()
        kafka.proxies.decide = let_pass
    last, read_next = stage.observer.wait_stable(STABLE_S), stage.observer.read_committed()
    _attempt(lambda: client.close(PATIENCE_S))
    reader = kafka.reader(recording, "reader-0", "read_committed")
    read_to_end(recording, reader, topic, [0])
    reader.close()
    assert hold.answer is not None and hold.answer.errors and hold.late is not None
    error, late_offset = hold.answer.errors[0], hold.answer.offset or 0
    late_epoch = epoch_of(hold.late)
    next_epoch = epoch_of(hold.later[-1]) if hold.later else -1
    late = LateWrite(
        error="" if error == 0 else KafkaError(error).name(),
        hanging=_hangs(first, second) and second.stable == late_offset,
        starved=COMMITTED not in _words(read),
        new_epoch=next_epoch not in (-1, late_epoch),
        aborted_read=LATE in _words(read_next),
        healed=last.stable == last.high,
    )
    evidence = Evidence(
        produce_version=hold.late.request.version,
        late_epoch=late_epoch,
        next_epoch=next_epoch,
        gave_up=gave_up,
        aborted=aborted,
        committed=committed,
        late_offset=late_offset,
        stable=(first.stable, second.stable),
        high=(first.high, second.high),
        read=_words(read),
        read_next=_words(read_next),
    )
    return late, evidence


def epoch_of(written: Header) -> int:
    """Returns the epoch with which a Produce request writes; -1 if it cannot be read."""
    epoch = written.transactions[0].epoch if written.transactions else None
    return -1 if epoch is None else epoch


@dataclass(frozen=True, slots=True)
class _Stage:
    """Where a cell is run."""

    kafka: RunningKafka
    recording: Recording
    topic: str
    observer: Observer


def _open(kafka: RunningKafka, recording: Recording, cell: Cell, topic: str) -> Producer:
    client: Producer
    match cell.client:
        case "librdkafka":
            client = kafka.producer(
                recording, CLIENT, transactional_id=topic, message_timeout_ms=GIVEN_UP_MS
            )
        case "java":
            limits = {"delivery_timeout_ms": GIVEN_UP_MS, "request_timeout_ms": GIVEN_UP_MS}
            client = kafka.java_producer(
                recording, CLIENT, cell.client_version, transactional_id=topic, **limits
            )
    client.init_transactions(PATIENCE_S)
    return client


def _give_up(stage: _Stage, client: Producer, hold: HoldWrite, *, in_callback: bool) -> tuple[str, str]:
    """Sends the write, and aborts once the client has given it up; returns the names of errors.

    Waits for the abort's marker, if there is one.
    """
    before = stage.observer.offsets().high
    told: list[str] = []
    client.begin_transaction()
    if isinstance(client, RecordedJavaProducer):
        client.inner.callback_ms = CALLBACK_MS if in_callback else 0
    _send(client, stage.topic, LATE, told)
    client.poll(0)
    if not hold.wait_held(PATIENCE_S):
        raise EnvironmentFailure("the producer sent nothing", "see log.txt of the broker")
    deadline_s = time.monotonic() + PATIENCE_S
    while not told:
        client.poll(0.1)
        if time.monotonic() > deadline_s:
            raise EnvironmentFailure(
                "the producer does not give its message up", "see log.txt of the broker"
            )
    if not in_callback:
        time.sleep(NOTICE_S)
    aborted = _attempt(lambda: client.abort_transaction(PATIENCE_S))
    if hold.late is not None and hold.late.request.version < IMPLICIT:
        stage.observer.wait_beyond(before, PATIENCE_S)
        time.sleep(SETTLE_S)
    if isinstance(client, RecordedJavaProducer):
        client.inner.callback_ms = 0
    return told[0], aborted


def _arrive(hold: HoldWrite) -> str:
    """Lets the late write go; returns that nothing failed."""
    hold.release()
    if hold.wait_answered(ARRIVAL_S) is None or hold.late is None:
        raise EnvironmentFailure("the broker did not answer the late write", "see its log.txt")
    return ""


def _join(stage: _Stage, client: Producer, hold: HoldWrite) -> str:
    """Lets the late write go while the next transaction is open; returns the name of the commit's error."""

    def work() -> None:
        client.begin_transaction()
        _send(client, stage.topic, NEXT)
        client.poll(0)
        if not hold.wait_next(PATIENCE_S):
            raise EnvironmentFailure("the producer sent nothing again", "see log.txt of the broker")
        _arrive(hold)
        hold.release_next()
        client.commit_transaction(PATIENCE_S)

    return _attempt(work)


def _commit_next(client: Producer, topic: str) -> None:
    client.begin_transaction()
    _send(client, topic, NEXT)
    client.commit_transaction(PATIENCE_S)


def _grow(stage: _Stage) -> tuple[Offsets, Offsets]:
    """Lets others write, without a transaction and in one; returns the offsets after each."""
    plain = stage.kafka.producer(stage.recording, "producer-1")
    _send(plain, stage.topic, PLAIN)
    plain.close(PATIENCE_S)
    first = stage.observer.wait_stable(STABLE_S)
    id_ = f"{stage.topic}-other"
    other = stage.kafka.producer(stage.recording, "producer-2", transactional_id=id_)
    other.init_transactions(PATIENCE_S)
    other.begin_transaction()
    _send(other, stage.topic, COMMITTED)
    other.commit_transaction(PATIENCE_S)
    other.close(PATIENCE_S)
    return first, stage.observer.wait_stable(STABLE_S)


def _hangs(first: Offsets, second: Offsets) -> bool:
    """Whether the log grew and what is stable did not."""
    return first.stable == second.stable < first.high < second.high


def _send(client: Producer, topic: str, word: str, told: list[str] | None = None) -> None:
    def deliver(error: Any, message: Any) -> None:
        if told is not None:
            told.append("" if error is None else _name(error))

    value = f"{word} {token_hex(8)}".encode()  # a log shows no headers, so no two have the same bytes
    client.produce(topic, value, partition=0, on_delivery=deliver)


def _attempt(work: Callable[[], Any]) -> str:
    """Returns the name of the error that the work raises, empty if none; the recording has it too."""
    try:
        work()
    except KafkaException as failure:
        return name_of(error_of(failure))
    except JavaError as failure:
        return failure.name
    return ""


def _name(error: KafkaError | JavaError) -> str:
    return error.name if isinstance(error, JavaError) else name_of(error)


def _words(values: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(each.decode().partition(" ")[0] for each in values)
