"""Arbitrary histories that keep the rules of recordings and no promise of any broker.

Numbers are small, so that events collide often: several messages at an offset, several sends of a message,
transactions that both commit and abort, equal times, clocks that jump, hosts that are not known, recordings
that broke off. Two checkers of `docs/history-checks.md` must agree on all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from veristream.history.events import NONE, Event, Operation, Outcome
from veristream.history.manifest import Manifest, Process, Stream
from veristream_testing.histories.history import History

_LOG: Final = (Operation.SEND, Operation.RECEIVE, Operation.RECEIVE, Operation.READ_TO_END)
_TRANSACTIONS: Final = (Operation.OPEN, Operation.BEGIN, Operation.END_COMMIT, Operation.END_ABORT)
_SESSIONS: Final = (Operation.ASSIGN, Operation.REVOKE, Operation.SEEK, Operation.CLOSE)
_GROUP: Final = (*_LOG, *_SESSIONS, Operation.ACKNOWLEDGE, Operation.COMMIT, Operation.COMMIT)
_QUEUE: Final = (
    Operation.SEND,
    *[Operation.RECEIVE] * 5,
    Operation.ACKNOWLEDGE,
    Operation.REJECT,
    Operation.READY,
    Operation.READ_TO_END,
    Operation.CLOSE,
    Operation.OPEN,
)
_LENGTHS: Final = (
    *[Operation.SEND] * 3,
    *[Operation.READ_TO_END] * 10,
    Operation.BEGIN,
    *[Operation.END_COMMIT] * 6,
)
THEMES: Final = (
    _LOG,
    (*_LOG, *_TRANSACTIONS),
    (*_LOG, *_LOG, *_LOG, *[Operation.BEGIN] * 3, *[Operation.END_COMMIT] * 3, Operation.END_ABORT),
    (*_LOG, *_LOG, Operation.BEGIN, Operation.END_COMMIT),
    _LENGTHS,
    _LENGTHS,
    _GROUP,
    (*_SESSIONS, Operation.COMMIT, Operation.ASSIGN),
    _QUEUE,
    tuple(Operation),
)
"""Which operations a history has; those that are there twice are twice as frequent."""

_ONE_EVENT: Final = {
    Operation.RECEIVE,
    Operation.ASSIGN,
    Operation.REVOKE,
    Operation.SEEK,
    Operation.READY,
    Operation.CLOSE,
}


@dataclass(slots=True)
class _Client:
    """A process: its next numbers, by how much its clock is behind, and the calls that it has not ended."""

    number: int
    index: int = 0
    call: int = 0
    behind_ns: int = 0
    open: list[list[Event]] = field(default_factory=list)
    batch: Event | None = None
    transaction: int = NONE
    epoch: int = 0


def noisy_history(seed: int, size: int = 80) -> History:
    """Returns a history of up to three times `size` events that depends on the seed only."""
    random = Random(f"noisy {seed}")
    theme = random.choice(THEMES)
    manifest = _manifest(random, theme)
    noise = _Noise(random, manifest, theme)
    events = noise.run(random.randint(size // 8, size * random.choice((1, 1, 3))))
    if not manifest.complete:
        events = [event for event in events if random.random() < 0.9]
    return History(manifest, tuple(events))


def _manifest(random: Random, theme: tuple[Operation, ...]) -> Manifest:
    hosts = random.choice((["here"], ["here"], ["here"], ["here", "there"], ["here", "here", ""]))
    processes = tuple(
        Process(f"p{number}", random.choice(hosts), random.choice(("", "read_committed")))
        for number in range(random.randint(1, 5))
    )
    streams = tuple(_stream(random, number, theme, processes) for number in range(random.randint(1, 2)))
    return Manifest(
        "noise",
        processes,
        streams,
        groups=("g0", "g1"),
        nodes=("n0",),
        complete=random.random() < 0.85,
        producers_complete=random.random() < 0.8,
        transactions_recorded=random.random() < 0.9,
    )


def _stream(
    random: Random, number: int, theme: tuple[Operation, ...], processes: tuple[Process, ...]
) -> Stream:
    queue = theme is _QUEUE or (theme is not _GROUP and random.random() < 0.3)
    permitted = tuple(each for each in range(len(processes)) if random.random() < 0.8)
    return Stream(
        f"s{number}",
        offsets=not queue,
        readers=permitted if random.random() < 0.3 else None,
        attempts_max=2 if queue and random.random() < 0.3 else None,
        redelivery_ns=random.choice((None, None, 10, 30)) if queue else None,
    )


class _Noise:
    """Makes events one after another."""

    def __init__(self, random: Random, manifest: Manifest, theme: tuple[Operation, ...]) -> None:
        self._random = random
        self._manifest = manifest
        self._theme = theme
        self._clients = [_Client(number) for number in range(len(manifest.processes))]
        self._now = 100
        self._jumps = random.choice((0.0, 0.0, 0.0, 0.02, 0.05))
        self._partitions = random.randint(1, 2)
        self._numbers = random.randint(2, 8)
        self._offsets = random.randint(3, 9)
        self._in_order = random.random() < 0.5
        self._next_offset: dict[tuple[int, int], int] = {}

    def run(self, size: int) -> list[Event]:
        """Returns events, of each process in the order of its index."""
        events: list[Event] = []
        while len(events) < size:
            client = self._random.choice(self._clients)
            if client.open and self._random.random() < 0.6:
                events += self._end(client)
            else:
                events += self._begin(client)
        return events

    def _stamp(self, client: _Client, event: Event) -> Event:
        """Gives an event its place in its process and its time."""
        random = self._random
        self._now += random.choice((0, 0, 1, 1, 2, 7))
        if random.random() < self._jumps:
            client.behind_ns += random.randint(-10, 40)
        client.index += 1
        time_ns = max(self._now - client.behind_ns, 0)
        return replace(event, index=client.index - 1, time_ns=time_ns, wall_us=self._now)

    def _begin(self, client: _Client) -> list[Event]:
        """Makes a call begin, or one that has only its end."""
        random = self._random
        operation = random.choice(self._theme)
        batch = client.batch
        if operation is Operation.RECEIVE and batch is not None and random.random() < 0.5:
            more = {"stream": batch.stream, "partition": batch.partition, "group": batch.group}
            event = self._make(client, operation, batch.call, more)
        else:
            event = self._make(client, operation, client.call, {})
            client.call += 1
        if operation is Operation.RECEIVE:
            client.batch = event
        if operation in _ONE_EVENT:
            return [self._stamp(client, event)]
        calls = [event]
        while operation is Operation.SEND and random.random() < 0.2 and len(calls) < 3:
            other = self._make(client, operation, event.call, {"stream": event.stream})
            same = replace(other, partition=event.partition, transaction=event.transaction)
            if all((same.producer, same.number) != (each.producer, each.number) for each in calls):
                calls.append(same)
        if random.random() < 0.1:
            return [self._stamp(client, self._finish(each)) for each in calls]
        client.open.append(calls)
        return [self._stamp(client, each) for each in calls]

    def _end(self, client: _Client) -> list[Event]:
        """Ends a call that began, or leaves it without an end."""
        calls = client.open.pop(self._random.randrange(len(client.open)))
        if self._random.random() < 0.1:
            return []
        return [self._stamp(client, self._finish(each)) for each in calls]

    def _finish(self, event: Event) -> Event:
        random = self._random
        outcome = random.choice((Outcome.OK, Outcome.OK, Outcome.OK, Outcome.FAIL, Outcome.INDEFINITE))
        if event.operation is Operation.READ_TO_END and outcome is Outcome.INDEFINITE:
            outcome = Outcome.FAIL
        error = "" if outcome is Outcome.OK else random.choice(("", "timed out"))
        ended = replace(event, outcome=outcome, error=error)
        sent = event.operation is Operation.SEND and outcome is Outcome.OK and event.partition != NONE
        if sent and self._is_log(event.stream) and random.random() < 0.9:
            return replace(ended, offset=self._offset(event.stream, event.partition))
        return ended

    def _is_log(self, stream: int) -> bool:
        return self._manifest.streams[stream].offsets

    def _offset(self, stream: int, partition: int) -> int:
        """Returns any offset, or in some histories mostly the next one of the partition."""
        if self._in_order and self._random.random() < 0.9:
            offset = self._next_offset.get((stream, partition), 0)
            self._next_offset[stream, partition] = (offset + 1) % (3 * self._offsets)
            return offset
        return self._random.randrange(self._offsets)

    def _make(self, client: _Client, operation: Operation, call: int, given: dict[str, int]) -> Event:
        random = self._random
        fields: dict[str, Any] = {
            "node": random.choice((NONE, 0)),
            "stream": random.randrange(len(self._manifest.streams)),
            "partition": random.randrange(self._partitions),
            "group": random.choice((NONE, 0, 0, 0, 1)),
        } | given
        fields |= self._fields(client, operation, fields["stream"])
        outcome = Outcome.OK if operation in _ONE_EVENT else Outcome.INVOKE
        return Event(client.number, 0, call, operation, outcome, **fields)

    def _fields(self, client: _Client, operation: Operation, stream: int) -> dict[str, int]:
        random = self._random
        offset = random.randrange(self._offsets) if self._is_log(stream) else NONE
        group = random.choice((0, 0, 1))
        match operation:
            case Operation.SEND:
                return self._message(client, 0.0) | self._send(client)
            case Operation.RECEIVE:
                attempt = random.choice((NONE, 1, 1, 1, 2, 3))
                return self._message(client, 0.1) | {"offset": offset, "attempt": attempt}
            case Operation.ACKNOWLEDGE | Operation.REJECT:
                return self._message(client, 0.1) | {"offset": offset}
            case Operation.COMMIT:
                return {"offset": random.randrange(self._offsets + 1), "group": group, "epoch": 1}
            case Operation.OPEN:
                client.epoch = random.randrange(4)
                return {**_NOWHERE, "group": group, "epoch": client.epoch}
            case Operation.BEGIN | Operation.END_COMMIT | Operation.END_ABORT:
                return {**_NOWHERE, "group": group, **self._transaction(client, operation)}
            case Operation.ASSIGN:
                start = random.choice((NONE, 0, random.randrange(self._offsets)))
                return {"offset": start, "group": group, "epoch": 1}
            case Operation.REVOKE:
                return {"group": group}
            case Operation.SEEK:
                return {"offset": random.randrange(self._offsets)}
            case Operation.READY:
                return {"partition": NONE, "number": random.randint(0, 4)}
            case Operation.READ_TO_END:
                if not self._is_log(stream):
                    return {}
                number = random.choice((0, 0, random.randrange(self._offsets)))
                offset = random.randrange(self._offsets + 2)
                return {"number": random.choice((number, offset)), "offset": offset}
            case Operation.CLOSE:
                return dict(_NOWHERE)

    def _send(self, client: _Client) -> dict[str, int]:
        fields = {"group": NONE, "transaction": client.transaction}
        if self._random.random() < 0.1:
            fields["partition"] = NONE
        if self._random.random() < 0.1 and Operation.BEGIN in self._theme:
            fields["transaction"] = self._random.randrange(3)
        return fields

    def _transaction(self, client: _Client, operation: Operation) -> dict[str, int]:
        """Mostly begins the next transaction, and ends the one that was begun last."""
        random = self._random
        transaction = random.randrange(3)
        if operation is Operation.BEGIN:
            if random.random() < 0.8:
                transaction = client.transaction + 1
            client.transaction = transaction
        elif random.random() < 0.8:
            transaction = max(client.transaction, 0)
        epoch = client.epoch if random.random() < 0.8 else random.randrange(4)
        return {"transaction": transaction, "epoch": epoch}

    def _message(self, client: _Client, unknown: float) -> dict[str, int]:
        random = self._random
        digest = random.choice((0, 1, 1, 1, 2))
        if random.random() < unknown:
            return {"digest": digest}
        producer = random.randrange(min(len(self._clients), 2))
        return {"producer": producer, "number": random.randrange(self._numbers), "digest": digest}


_NOWHERE: Final = {"stream": NONE, "partition": NONE, "group": NONE}
