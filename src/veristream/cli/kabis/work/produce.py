"""`kabis produce`: pushes lines as events and reports acknowledgements."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import typer

from veristream.cli.kabis.work.opening import showing_opening
from veristream.cli.kabis.work.seal import read_sealers
from veristream.cli.kabis.work.text import read_event
from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.client.errors import UnknownTopicError
from veristream.kabis.client.following import Progress
from veristream.kabis.client.options import ProducerOptions
from veristream.kabis.client.producer.producer import KabisProducer
from veristream.kabis.client.pushes import Acknowledged, Pushed
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.log.disk.files import InUse
from veristream.kabis.protocol.records import LEAF_BYTES_MAX, Record

PENDING_MAX = 20_000
LINE_BYTES_MAX = 2 * LEAF_BYTES_MAX
"""Maximum length of a line; large enough for an event of maximum size in base64."""


@dataclass(frozen=True, slots=True)
class Source:
    """Arguments of `produce`."""

    topic: str
    key: str | None
    partition: int | None
    seals: tuple[Path, ...]
    name: str
    as_json: bool


def produce(data: Path, source: Source) -> None:
    """Pushes the lines of stdin and prints where they were acknowledged."""
    access = Access(ClusterFolder(data)).require_up()
    tally = _Tally(source)
    failure: ModelError | EnvironmentFailure | None = None
    with showing_opening() as shown, _open(access, source, shown) as producer:
        _require(producer, source.topic)
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


def _open(access: Access, source: Source, shown: Callable[[Progress], object]) -> KabisProducer:
    sealers = read_sealers(access.genesis.chain_id, source.seals, (source.topic,))
    try:
        producer = access.producer(source.name, ProducerOptions(sealers=sealers))
    except InUse as error:
        raise EnvironmentFailure(
            f"another producer is running as {source.name}: {error.message}",
            "wait until it ends, or use another name: veristream kabis client add NAME, produce --as NAME",
        ) from error
    producer.show_opening(shown)
    return producer


def _require(producer: KabisProducer, topic: str) -> None:
    """Raises an error that would apply to every event, before the first line is read."""
    if topic not in producer.topics():
        raise UnknownTopicError(topic)
    producer.require_valid_key()


def read_records(stream: BinaryIO, source: Source) -> Iterator[tuple[Record, str]]:
    """Yields the event of each line, with its line number for messages."""
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
        hint=f"an event has at most {LEAF_BYTES_MAX} bytes; split it, or push a link to the data",
    )


class _Tally:
    """Pushes that are still pending, and the indices of acknowledged events."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._pending: deque[Pushed] = deque()
        self._count = 0
        self._bounds: dict[int, tuple[int, int]] = {}
        self._failure: ModelError | EnvironmentFailure | None = None
        self._validated = True

    def add(self, pushed: Pushed) -> None:
        """Adds a push; blocks if more than `PENDING_MAX` are pending, and raises the first failure."""
        self._pending.append(pushed)
        while len(self._pending) > PENDING_MAX or (self._pending and self._pending[0].done()):
            self._settle_one()
        if self._failure is not None:
            raise self._failure

    def settle(self) -> ModelError | EnvironmentFailure | None:
        """Waits for all pushes; returns the first failure."""
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
        """Prints a summary, unless each event was printed as JSON."""
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
