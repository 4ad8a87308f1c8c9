"""A simulated broker: logs with transactions, groups, and queues with subscriptions. It never errs."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal

from veristream.history.events import NONE, Event, Operation
from veristream.history.verdicts import Anomaly
from veristream_testing.histories.recorder import Recorder

EVENTS: Final = 0
"""A log without transactions."""
PAYMENTS: Final = 1
"""A log of transactions."""
JOBS: Final = 2
"""A queue."""

Client = Iterator[None]
"""A client of the broker, which takes a step whenever it is asked to."""


@dataclass(slots=True)
class Transaction:
    """A transaction as the broker knows it, and the partitions that it wrote to."""

    state: Literal["open", "committed", "aborted"] = "open"
    partitions: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Record:
    """A message in a log or a queue; `attempt` counts the deliveries of the latter."""

    producer: int
    number: int
    digest: int = 0
    transaction: Transaction | None = None
    attempt: int = 1


class Log:
    """A partition of a log; a place without a record is a mark that no reader sees."""

    def __init__(self) -> None:
        self.records: list[Record | None] = []

    @property
    def end(self) -> int:
        return len(self.records)

    def append(self, record: Record | None) -> int:
        """Stores a record, or a mark; returns its offset."""
        self.records.append(record)
        return self.end - 1

    def stable_end(self) -> int:
        """Returns the offset below which no transaction is open."""
        for offset, record in enumerate(self.records):
            if record is not None and record.transaction and record.transaction.state == "open":
                return offset
        return self.end

    def read(self, start: int, count: int) -> list[tuple[int, Record]]:
        """Returns the first committed records from an offset on."""
        committed = []
        for offset in range(start, self.stable_end()):
            record = self.records[offset]
            if record is not None and (
                record.transaction is None or record.transaction.state == "committed"
            ):
                committed.append((offset, record))
        return committed[:count]


class Group:
    """A consumer group of the log `EVENTS`: who its members are, what they hold and what they committed."""

    def __init__(self, number: int, logs: list[Log], latest: bool) -> None:
        self.number = number
        self.latest = latest
        self.starts = [log.end if latest else 0 for log in logs]
        self.committed: dict[int, int] = {}
        self.members: list[int] = []
        self.generation = 0
        self.rebalancing = False
        self._ready: set[int] = set()
        self.assigned: dict[int, list[int]] = {}

    def start(self, partition: int) -> int:
        """Returns where a member starts that is assigned a partition."""
        return self.committed.get(partition, self.starts[partition])

    def join(self, process: int) -> None:
        """Adds a member, which has to wait until the others gave up what they hold."""
        self.members.append(process)
        self.rebalancing = True

    def leave(self, process: int) -> None:
        """Removes a member, and what it held is assigned to others."""
        self.members.remove(process)
        self._ready.discard(process)
        self.rebalancing = True
        self._finish()

    def give_up(self, process: int) -> None:
        """Says that a member holds nothing."""
        self._ready.add(process)
        self._finish()

    def _finish(self) -> None:
        if self._ready != set(self.members):
            return
        self._ready.clear()
        self.rebalancing = False
        self.generation += 1
        count = len(self.members)
        self.assigned = {
            process: [each for each in range(len(self.starts)) if each % count == position]
            for position, process in enumerate(self.members)
        }


class World:
    """The broker's state, the recording of its clients, and what a checker must find in it."""

    def __init__(self, random: Random, partitions: int) -> None:
        self.random = random
        self.recorder = Recorder(random)
        self.events = [Log() for _ in range(partitions)]
        self.payments = [Log() for _ in range(partitions)]
        self.subscriptions: list[int] = []
        self.jobs: list[dict[int, deque[Record]]] = []
        self.redelivers = False
        self.attempts_max: int | None = None
        self.epochs: Counter[int] = Counter()
        self.under_way: dict[int, Transaction] = {}
        self.intruders: set[tuple[int, int]] = set()
        self.anomalies: set[Anomaly] = set()
        self._numbers: Counter[int] = Counter()
        self._delivered: Counter[tuple[int, int, int, int]] = Counter()
        self._free = {stream: list(range(partitions)) for stream in (EVENTS, PAYMENTS, JOBS)}
        for partitions_left in self._free.values():
            random.shuffle(partitions_left)

    def subscribe(self, groups: list[int]) -> None:
        """Creates the queues, one for each subscription in each partition."""
        self.subscriptions = groups
        self.jobs = [{group: deque() for group in groups} for _ in self.events]

    def log(self, stream: int, partition: int) -> Log:
        """Returns a partition of a log."""
        return (self.events if stream == EVENTS else self.payments)[partition]

    def reserve(self, stream: int) -> int:
        """Returns a partition that nothing else is planted in."""
        return self._free[stream].pop()

    def number(self, producer: int) -> int:
        """Returns the number of the next message of a producer."""
        self._numbers[producer] += 1
        return self._numbers[producer] - 1

    def digest(self) -> int:
        """Returns a digest, or 0, since some clients take none."""
        return self.random.choice((0, self.random.randint(1, 10**12)))

    # Transactions.

    def open(self, group: int) -> int:
        """Gives a transactional id a new epoch, and aborts what was under way under the old one."""
        if (transaction := self.under_way.pop(group, None)) is not None:
            self.finish(transaction, "aborted")
        self.epochs[group] += 1
        return self.epochs[group]

    def finish(self, transaction: Transaction, state: Literal["committed", "aborted"]) -> None:
        """Ends a transaction, with a mark in each partition that it wrote to."""
        transaction.state = state
        for partition in sorted(transaction.partitions):
            self.payments[partition].append(None)

    # What clients receive.

    def receive(
        self, process: int, stream: int, partition: int, at: tuple[int, Record], **fields: int | None
    ) -> Event:
        """Records that a process received a record of a log; one without a producer is from nowhere."""
        offset, record = at
        received = self.recorder.once(
            process,
            Operation.RECEIVE,
            stream=stream,
            partition=partition,
            offset=offset,
            producer=record.producer,
            number=record.number,
            digest=record.digest,
            **fields,
        )
        if record.producer == NONE:
            place = {"stream": stream, "partition": partition}
            self.anomalies.add(Anomaly("unexpected", **place, process=process, index=received.index))
        return received

    def deliver(
        self, process: int, partition: int, group: int, record: Record, call: int | None = None
    ) -> Event:
        """Records that a process received a message of a queue; one that comes again is a duplicate."""
        key = (partition, group, record.producer, record.number)
        self._delivered[key] += 1
        if self._delivered[key] > 1:
            self.anomalies.add(Anomaly("duplicate", JOBS, *key))
        return self.recorder.once(
            process,
            Operation.RECEIVE,
            call,
            stream=JOBS,
            partition=partition,
            group=group,
            producer=record.producer,
            number=record.number,
            digest=record.digest,
            attempt=record.attempt,
        )
