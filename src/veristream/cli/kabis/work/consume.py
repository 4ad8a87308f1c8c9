"""`kabis consume`: prints events, one per line."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from veristream.cli.kabis.work.opening import showing_opening
from veristream.cli.kabis.work.seal import read_sealers
from veristream.cli.kabis.work.text import show_event
from veristream.errors import ModelError
from veristream.kabis.client.consumed import Consumed
from veristream.kabis.client.consumer.consumer import EVENTS_MAX, KabisConsumer
from veristream.kabis.client.errors import UnknownTopicError
from veristream.kabis.client.following import Progress
from veristream.kabis.client.options import ConsumerOptions, Start
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.cluster.status import note_suspicions

COMMIT_EVERY_S = 1.0
PULL_S = 0.25


@dataclass(frozen=True, slots=True)
class Sink:
    """What `consume` reads and how it prints."""

    topics: tuple[str, ...]
    validate: bool
    group: str | None
    seals: tuple[Path, ...]
    name: str
    nearest: str | None
    as_json: bool


@dataclass(frozen=True, slots=True)
class Begin:
    """Where `consume` starts."""

    from_beginning: bool
    partition: int | None
    index: int | None


@dataclass(frozen=True, slots=True)
class Stop:
    """When `consume` ends: after `count_max` events, or `timeout_s` seconds without one."""

    count_max: int | None
    timeout_s: float | None


def _shown(consumer: KabisConsumer, shown: Callable[[Progress], object]) -> KabisConsumer:
    consumer.show_opening(shown)
    return consumer


def consume(data: Path, sink: Sink, begin: Begin, stop: Stop) -> None:
    """Prints events as they arrive, until `stop`, a broken pipe or Ctrl-C."""
    folder = ClusterFolder(data)
    access = Access(folder).require_up()
    _check(sink, begin)
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
        with showing_opening() as shown, _shown(access.consumer(sink.name, options), shown) as consumer:
            try:
                _check_topics(consumer, sink, begin)
                _begin(consumer, sink, begin)
                _copy(consumer, sink, stop)
            finally:
                suspicions = consumer.suspicions()
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:  # the reader closed the pipe; keep Python from flushing to it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    note_suspicions(folder, sink.name, suspicions)
    for party, count in sorted(suspicions.items()):
        typer.echo(
            f"note: {count} wrong or missing answers from {party}; other parties supplied the events",
            err=True,
        )


def _check(sink: Sink, begin: Begin) -> None:
    """Raises ModelError for options that contradict each other."""
    if begin.partition is not None and (sink.group is not None or len(sink.topics) > 1):
        raise ModelError(
            "--partition needs a single topic and no --group", hint="a group assigns partitions itself"
        )
    if begin.index is not None and begin.partition is None:
        raise ModelError("--from needs a partition", hint="add --partition 0")
    if sink.nearest is not None and not sink.validate:
        raise ModelError(
            "--nearest cannot be combined with --no-validate",
            hint="without validation, events come from the one party that keeps the topic",
        )


def _check_topics(consumer: KabisConsumer, sink: Sink, begin: Begin) -> None:
    """Raises UnknownTopicError; prints a note for each topic that delivers nothing to this consumer."""
    policies = consumer.topics()
    for topic in sink.topics:
        policy = policies.get(topic)
        if policy is None:
            raise UnknownTopicError(topic)
        if begin.partition is not None and begin.partition >= policy.partitions:
            raise UnknownTopicError(
                topic, f"no partition {begin.partition}; it has {policy.partitions}, numbered from 0"
            )
        if sink.validate and not policy.validated:
            typer.echo(
                f"note: {topic} is not validated, so a validating consumer receives nothing from it;"
                " use --no-validate to read it",
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
    """Prints events, and in a group commits them after printing."""
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
