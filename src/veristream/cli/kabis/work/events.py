"""Events through pipes: lines in, lines out."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import typer

from veristream.cli.kabis.work.seals import read_sealers
from veristream.cli.kabis.work.text import read_event, show_event
from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.client.administration import Replica, visit
from veristream.kabis.client.authority import find_key_problem
from veristream.kabis.client.consumed import Consumed
from veristream.kabis.client.consumer.consumer import EVENTS_MAX, KabisConsumer
from veristream.kabis.client.consumer.options import ConsumerOptions, Start
from veristream.kabis.client.errors import UnknownTopicError
from veristream.kabis.client.producer.producer import KabisProducer
from veristream.kabis.client.producer.routes import ProducerOptions
from veristream.kabis.client.pushes import Acknowledged, Pushed
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.cluster.status import note_suspicions
from veristream.kabis.ledger.state import Topic
from veristream.kabis.log.disk.files import InUse
from veristream.kabis.protocol.records import LEAF_BYTES_MAX, Record

PENDING_MAX = 20_000
COMMIT_EVERY_S = 1.0
PULL_S = 0.25
LINE_BYTES_MAX = 2 * LEAF_BYTES_MAX
"""The longest line that is read: an event of the largest size as base64 fits."""


@dataclass(frozen=True, slots=True)
class Source:
    """What `produce` was told."""

    topic: str
    key: str | None
    partition: int | None
    seals: tuple[Path, ...]
    name: str
    as_json: bool


@dataclass(frozen=True, slots=True)
class Sink:
    """What `consume` was told about what to read, and how to print it."""

    topics: tuple[str, ...]
    validate: bool
    group: str | None
    seals: tuple[Path, ...]
    name: str
    nearest: str | None
    as_json: bool


@dataclass(frozen=True, slots=True)
class Begin:
    """Where `consume` begins."""

    from_beginning: bool
    partition: int | None
    index: int | None


@dataclass(frozen=True, slots=True)
class Stop:
    """When `consume` ends: after so many events, or so long without one."""

    count_max: int | None
    timeout_s: float | None


# Producing.


def produce(data: Path, source: Source) -> None:
    """Pushes the lines of stdin, and prints what became of them."""
    access = Access(ClusterFolder(data)).require_up()
    _require(access, source)
    tally = _Tally(source)
    failure: ModelError | EnvironmentFailure | None = None
    with _open(access, source) as producer:
        try:
            for record, where in read_records(sys.stdin.buffer, source):
                tally.add(_push(producer, record, where))
        except (ModelError, EnvironmentFailure) as error:
            failure = error
        producer.flush()
        failure = tally.settle() or failure
    tally.tell()
    if failure is not None:
        raise failure


def _open(access: Access, source: Source) -> KabisProducer:
    sealers = read_sealers(access.genesis.chain_id, source.seals, (source.topic,))
    try:
        return access.producer(source.name, ProducerOptions(sealers=sealers))
    except InUse as error:
        raise EnvironmentFailure(
            f"another producer pushes as {source.name}: {error.message}",
            "wait for it, or push under another name: veristream kabis client add NAME, produce --as NAME",
        ) from error


def _require(access: Access, source: Source) -> None:
    """Raises what would keep every event from being admitted."""
    author = access.author(source.name)

    async def check(replica: Replica) -> None:
        if replica.ledger.topic(source.topic) is None:
            raise UnknownTopicError(source.topic)
        problem = find_key_problem(replica.ledger, author)
        if problem is not None:
            raise problem

    visit(access.genesis, access.admin(), check)


def read_records(stream: BinaryIO, source: Source) -> Iterator[tuple[Record, str]]:
    """The events of a stream's lines, each with where it stands."""
    key = None if source.key is None else source.key.encode("utf-8")
    number = 0
    while line := stream.readline(LINE_BYTES_MAX + 2):
        number += 1
        where = f"line {number}"
        if len(line) > LINE_BYTES_MAX:
            raise _too_large(where, f"more than {LINE_BYTES_MAX} bytes")
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        if not source.as_json:
            yield Record(source.topic, line, key, partition=source.partition), where
            continue
        record = read_event(line, source.topic, where)
        chosen = source.partition if record.partition is None else record.partition
        named = key if record.key is None else record.key
        yield Record(source.topic, record.value, named, record.headers, record.timestamp_ms, chosen), where


def _push(producer: KabisProducer, record: Record, where: str) -> Pushed:
    try:
        return producer.push(record)
    except ValueError as error:
        raise _too_large(where, str(error)) from error


def _too_large(where: str, detail: str) -> ModelError:
    return ModelError(
        f"{where}: {detail}",
        hint=f"an event has at most {LEAF_BYTES_MAX} bytes; split it, or push where it can be had",
    )


class _Tally:
    """What was pushed and is not settled, and the indices of what was acknowledged."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._pending: deque[Pushed] = deque()
        self._count = 0
        self._bounds: dict[int, tuple[int, int]] = {}
        self._failure: ModelError | EnvironmentFailure | None = None
        self._validated = True

    def add(self, pushed: Pushed) -> None:
        """Notes an event; waits for the oldest if there are very many, and stops if it failed."""
        self._pending.append(pushed)
        while len(self._pending) > PENDING_MAX or (self._pending and self._pending[0].done()):
            self._settle_one()
        if self._failure is not None:
            raise self._failure

    def settle(self) -> ModelError | EnvironmentFailure | None:
        """Waits for all; gives the first failure."""
        while self._pending:
            self._settle_one()
        return self._failure

    def _settle_one(self) -> None:
        pushed = self._pending.popleft()
        try:
            done = pushed.result()
        except (ModelError, EnvironmentFailure) as error:
            self._failure = self._failure or error
            return
        self._count += 1
        self._validated = done.validated
        first, last = self._bounds.get(done.partition, (done.index, done.index))
        self._bounds[done.partition] = min(first, done.index), max(last, done.index)
        if self._source.as_json:
            typer.echo(json.dumps(_show_acknowledged(done)))

    def tell(self) -> None:
        """Prints a line on what was acknowledged."""
        if self._source.as_json:
            return
        trust = "" if self._validated else ", not validated"
        places = [
            f"{self._source.topic}-{partition} {first}" + (f" to {last}" if last > first else "")
            for partition, (first, last) in sorted(self._bounds.items())
        ]
        where = f" at {', '.join(places)}" if places else ""
        typer.echo(f"{self._count} event{'s' * (self._count != 1)} acknowledged{where}{trust}")


def _show_acknowledged(done: Acknowledged) -> dict[str, object]:
    return {
        "topic": done.topic,
        "partition": done.partition,
        "index": done.index,
        "validated": done.validated,
        "time_ms": done.time_ms,
    }


# Consuming.


def consume(data: Path, sink: Sink, begin: Begin, stop: Stop) -> None:
    """Prints events as they come, until it is time to stop."""
    folder = ClusterFolder(data)
    access = Access(folder).require_up()
    _check(access, sink, begin)
    options = ConsumerOptions(
        validate=sink.validate,
        group=sink.group,
        instance=f"{os.getpid()}",
        start=Start.BEGINNING if begin.from_beginning else Start.END,
        auto_commit_ms=None,
        sealers=read_sealers(access.genesis.chain_id, sink.seals, sink.topics),
        nearest=sink.nearest,
    )
    suspicions: dict[str, int] = {}
    try:
        with access.consumer(sink.name, options) as consumer:
            try:
                _begin(consumer, sink, begin)
                _copy(consumer, sink, stop)
            finally:
                suspicions = consumer.suspicions()
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:  # whoever read our output has had enough; nothing more can be said there
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    note_suspicions(folder, sink.name, suspicions)
    for party, count in sorted(suspicions.items()):
        typer.echo(f"note: {count} wrong or missing answers from {party}; others gave the events", err=True)


def _check(access: Access, sink: Sink, begin: Begin) -> None:
    """Raises what is wrong with the topics, and says what will not be delivered."""
    if begin.partition is not None and (sink.group is not None or len(sink.topics) > 1):
        raise ModelError(
            "--partition is for one topic and no group", hint="a group shares the partitions itself"
        )
    if begin.index is not None and begin.partition is None:
        raise ModelError("--from is an index of one partition", hint="say which: --partition 0")
    if sink.nearest is not None and not sink.validate:
        raise ModelError(
            "--nearest is for a consumer that validates",
            hint="one that does not believes the one party that keeps the topic",
        )

    async def read(replica: Replica) -> dict[str, Topic]:
        return replica.ledger.topics()

    policies = visit(access.genesis, access.admin(), read)
    for topic in sink.topics:
        policy = policies.get(topic)
        if policy is None:
            raise UnknownTopicError(topic)
        if begin.partition is not None and begin.partition >= policy.partitions:
            raise UnknownTopicError(topic, f"it has {policy.partitions} partitions, from 0 on")
        if sink.validate and not policy.validated:
            typer.echo(
                f"note: {topic} is not validated, so that a consumer that validates gets nothing of it;"
                " --no-validate reads it",
                err=True,
            )


def _begin(consumer: KabisConsumer, sink: Sink, begin: Begin) -> None:
    if begin.partition is None:
        consumer.subscribe(sink.topics)
        return
    place = (sink.topics[0], begin.partition)
    consumer.assign([place])
    if begin.index is not None:
        consumer.seek(place, begin.index)


def _copy(consumer: KabisConsumer, sink: Sink, stop: Stop) -> None:
    """Prints what is pulled, and commits what was printed."""
    printed, heard_s, committed_s = 0, time.monotonic(), time.monotonic()
    unsaid = False
    while stop.count_max is None or printed < stop.count_max:
        left = EVENTS_MAX if stop.count_max is None else min(EVENTS_MAX, stop.count_max - printed)
        events = consumer.pull(PULL_S, left)
        now_s = time.monotonic()
        if events:
            _print(events, as_json=sink.as_json)
            printed, heard_s, unsaid = printed + len(events), now_s, sink.group is not None
        elif stop.timeout_s is not None and now_s - heard_s >= stop.timeout_s:
            break
        if unsaid and now_s - committed_s >= COMMIT_EVERY_S:
            consumer.commit()
            committed_s, unsaid = now_s, False
    if unsaid:
        consumer.commit()


def _print(events: Sequence[Consumed], *, as_json: bool) -> None:
    sys.stdout.flush()
    out = sys.stdout.buffer
    out.writelines(_lines(events, as_json=as_json))
    out.flush()


def _lines(events: Iterable[Consumed], *, as_json: bool) -> Iterator[bytes]:
    for event in events:
        yield (
            json.dumps(show_event(event)).encode("ascii") + b"\n"
            if as_json
            else (event.value or b"") + b"\n"
        )
