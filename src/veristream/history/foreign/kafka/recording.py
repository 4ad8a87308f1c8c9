"""Importing what Kafka's verifiable clients printed, and the logs of brokers beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from veristream.errors import ModelError
from veristream.history.events import Operation, Outcome
from veristream.history.foreign.kafka import consumer, producer
from veristream.history.foreign.kafka.clients import Clients
from veristream.history.foreign.kafka.consumer import Consumer
from veristream.history.foreign.kafka.dump import Dump
from veristream.history.foreign.kafka.lines import Line, name_files, read_client
from veristream.history.foreign.kafka.producer import Producer
from veristream.history.foreign.kafka.view import BrokerLog, Fate, current_log, digest_of, view_logs
from veristream.history.foreign.recording import Recording
from veristream.history.manifest import Manifest, Process

ONE_HOST: Final = "host"
_ONLY_PRODUCER: Final = frozenset(producer.NAMES) - frozenset(consumer.NAMES)
_ONLY_CONSUMER: Final = frozenset(consumer.NAMES) - frozenset(producer.NAMES)


def import_clients(
    paths: Sequence[Path], recording: Recording, dumps: Sequence[Dump], one_host: bool, incomplete: bool
) -> Manifest:
    """Adds the events of all clients, and returns the manifest without the names.

    `one_host` says that all clients ran on one machine, so that their clocks can be compared.
    """
    begin_ms = min(_first_time(path) for path in paths)
    clients = Clients(recording, begin_ms, ONE_HOST if one_host else "", incomplete)
    producers = [path for path in paths if _is_producer(path)]
    names = name_files(paths)
    all_sends = True
    for path in producers:
        all_sends &= Producer(clients, names[path]).take(read_client(path))
    verbose = True
    for path in paths:
        if path not in producers:
            verbose &= Consumer(clients, names[path], "consumers").take(read_client(path))
    add_logs(recording, clients, dumps)
    clients.coverage.put(recording)
    return Manifest(
        source="kafka",
        processes=(),
        streams=(),
        complete=not incomplete,
        producers_complete=all_sends and bool(producers),
        transactions_recorded=False,
        workload="verifiable clients",
        settings={"receipts": "all" if verbose else "not recorded: run the consumer with --verbose"},
    )


def add_logs(recording: Recording, clients: Clients, dumps: Sequence[Dump]) -> None:
    """Adds a reader for each broker, which gets what its log has where it was the latest leader's.

    It reads as `read_committed` does: neither aborted nor open transactions, and nothing behind an open
    one.
    """
    manifest = Manifest("kafka", (), recording.streams())
    by_value = {
        (stream, value): identity
        for (stream, value), identity in clients.messages.identities().items()
        if isinstance(value, str)
    }
    host = next(iter(recording.hosts())) if len(recording.hosts()) == 1 else ""
    time_ns = recording.latest_time() + 1
    for place, logs in sorted(view_logs(dumps, manifest, by_value).logs.items()):
        log = current_log(logs)
        process = recording.process(Process(f"log of broker {log.broker}", host, "read_committed"))
        clients.coverage.seek(process, place, log.log.start)
        _add_log(recording, clients, (process, time_ns), (place, log))


def _add_log(
    recording: Recording, clients: Clients, reader: tuple[int, int], log: tuple[tuple[int, int], BrokerLog]
) -> None:
    (process, time_ns), (place, broker_log) = reader, log
    call = (process, recording.call(process))
    for stored in broker_log.stored:
        if stored.record.offset >= broker_log.stable_end:
            break
        if stored.fate is Fate.COMMITTED and stored.record.valid:
            clients.coverage.receive(process, place, stored.record.offset)
            recording.put(
                call, Operation.RECEIVE, Outcome.OK, time_ns,
                stream=place[0], partition=place[1], offset=stored.record.offset,
                producer=stored.identity[0], number=stored.identity[1],
                digest=digest_of(stored.record.payload),
            )  # fmt: skip
    clients.coverage.reach(process, place, broker_log.stable_end)


def _first_time(path: Path) -> int:
    return next(iter(read_client(path))).time_ms()


def _is_producer(path: Path) -> bool:
    """Whether a producer printed the file, by the first event that only one of the two prints."""
    lines: Iterator[Line] = read_client(path)
    last: Line | None = None
    for line in lines:
        if line.name in _ONLY_PRODUCER:
            return True
        if line.name in _ONLY_CONSUMER:
            return False
        if line.name not in chain(producer.NAMES, consumer.NAMES):
            raise line.error(
                f"unknown event `{line.name}`", f"known are {', '.join((*producer.NAMES, *consumer.NAMES))}"
            )
        last = line
    raise ModelError(
        f"`{path}` has nothing that only a producer or only a consumer prints"
        + (f": {last.name} is its last event" if last else ""),
        hint="leave the file out: its client has done nothing",
    )
