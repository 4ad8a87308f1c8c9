"""The terms of `docs/history-checks.md`: calls, real time, messages, transactions, offsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise
from typing import NamedTuple

from veristream.errors import ModelError
from veristream.history.events import NONE, Event, Operation, Outcome
from veristream.history.manifest import Manifest
from veristream.history.reasons import INDEX_HINT, tell_index
from veristream.history.witnesses import order_of


class Message(NamedTuple):
    """A message in a partition of a stream."""

    stream: int
    partition: int
    producer: int
    number: int


class Transaction(NamedTuple):
    """A transaction: the process that sends in it, and its number."""

    process: int
    number: int


class Fate(Enum):
    """What is known of a transaction."""

    COMMITTED = auto()
    ABORTED = auto()
    INDEFINITE = auto()


@dataclass(frozen=True, slots=True)
class Send:
    """A call of `SEND`: its events that name one message, by index."""

    events: tuple[Event, ...]

    @property
    def process(self) -> int:
        return self.events[0].process

    @property
    def transaction(self) -> Transaction | None:
        return transaction_of(self.events[0])

    @property
    def end(self) -> Event | None:
        ends = [event for event in self.events if event.outcome is not Outcome.INVOKE]
        return ends[-1] if ends else None

    @property
    def possible(self) -> bool:
        """Says whether it may have had an effect."""
        return self.end is None or self.end.outcome is not Outcome.FAIL


def transaction_of(event: Event) -> Transaction | None:
    """Returns the transaction that a `SEND`, `BEGIN` or end of one is in."""
    return None if event.transaction == NONE else Transaction(event.process, event.transaction)


def message_of(event: Event) -> Message:
    """Returns the message of an event, in the partition of the event."""
    return Message(event.stream, event.partition, event.producer, event.number)


def first(events: Iterable[Event]) -> Event:
    """Returns the first of some events, as witnesses mean it."""
    return min(events, key=order_of)


def chosen(acknowledgements: list[Event]) -> Event:
    """Returns the first OK event by process and index that has an offset, else the first one."""
    return min(acknowledgements, key=lambda event: (event.offset == NONE, event.process, event.index))


class Facts:
    """A history by the terms of its checks. Its lists of events are ordered by process and index."""

    def __init__(self, manifest: Manifest, events: Iterable[Event]) -> None:
        self.manifest = manifest
        self.events = sorted(events, key=lambda event: (event.process, event.index))
        self._check_index()
        self._jumped = {
            after.process
            for before, after in pairwise(self.events)
            if before.process == after.process and after.time_ns < before.time_ns
        }
        self._begins: dict[tuple[int, int], Event] = {}
        for event in self.events:
            self._begins.setdefault((event.process, event.call), event)
        self.receipts: dict[Message, list[Event]] = {}
        for event in self.of(Operation.RECEIVE):
            if event.producer != NONE:
                self.receipts.setdefault(message_of(event), []).append(event)
        self.sends = self._find_sends()
        self._ends: dict[Transaction, list[Event]] = {}
        for event in self.of(Operation.END_COMMIT, Operation.END_ABORT):
            if transaction := transaction_of(event):
                self._ends.setdefault(transaction, []).append(event)

    def _check_index(self) -> None:
        expected: dict[int, int] = {}
        for event in self.events:
            awaited = expected.get(event.process, 0)
            if event.index < awaited or (event.index > awaited and self.manifest.complete):
                process = self.manifest.processes[event.process].name
                raise ModelError(tell_index(process, awaited, event), hint=INDEX_HINT)
            expected[event.process] = event.index + 1

    def _find_sends(self) -> dict[Message, list[Send]]:
        calls: dict[tuple[int, int, Message], list[Event]] = {}
        for event in self.of(Operation.SEND):
            calls.setdefault((event.process, event.call, message_of(event)), []).append(event)
        received_in: dict[tuple[int, int, int], set[int]] = {}
        for stream, partition, producer, number in self.receipts:
            received_in.setdefault((stream, producer, number), set()).add(partition)
        found: dict[Message, list[Send]] = {}
        for (_, _, message), events in calls.items():
            partitions = {message.partition}
            if message.partition == NONE:
                name = (message.stream, message.producer, message.number)
                partitions = received_in.get(name, partitions)
            for partition in sorted(partitions):
                found.setdefault(message._replace(partition=partition), []).append(Send(tuple(events)))
        return found

    def of(self, *operations: Operation) -> Iterator[Event]:
        """Yields the events of some operations, of all outcomes."""
        return (event for event in self.events if event.operation in operations)

    def ok(self, *operations: Operation) -> Iterator[Event]:
        """Yields the events with which calls of some operations ended OK."""
        return (event for event in self.of(*operations) if event.outcome is Outcome.OK)

    def is_log(self, event: Event | Message) -> bool:
        """Says whether the stream of an event or a message is a log; one without a stream is of none."""
        return event.stream != NONE and self.manifest.streams[event.stream].offsets

    def is_queue(self, event: Event | Message) -> bool:
        """Says whether the stream of an event or a message is a queue."""
        return event.stream != NONE and not self.manifest.streams[event.stream].offsets

    # Order.

    def begin(self, event: Event) -> Event:
        """Returns the event with which the call of an event began."""
        return self._begins[event.process, event.call]

    def jumped(self, process: int) -> bool:
        """Says whether the clock of a process jumped."""
        return process in self._jumped

    def comparable(self, one: int, other: int) -> bool:
        """Says whether events of two processes can be ordered."""
        if one == other:
            return True
        host = self.manifest.processes[one].host
        same = host != "" and host == self.manifest.processes[other].host
        return same and one not in self._jumped and other not in self._jumped

    def before(self, end: Event, later: Event) -> bool:
        """Says whether the call that `end` ends did so before that of `later` began."""
        begin = self.begin(later)
        if end.process == begin.process:
            return end.index < begin.index
        return self.comparable(end.process, begin.process) and end.time_ns < begin.time_ns

    # Transactions.

    def ends(self, transaction: Transaction, operation: Operation) -> list[Event]:
        """Returns the events of `END_COMMIT` or `END_ABORT` of a transaction, of all outcomes."""
        return [event for event in self._ends.get(transaction, []) if event.operation is operation]

    def fate(self, transaction: Transaction) -> Fate:
        """Says what became of a transaction."""
        done = {event.operation for event in self._ends.get(transaction, []) if event.outcome is Outcome.OK}
        if done == {Operation.END_COMMIT}:
            return Fate.COMMITTED
        return Fate.ABORTED if done == {Operation.END_ABORT} else Fate.INDEFINITE

    def first_end(self, transaction: Transaction, operation: Operation) -> Event:
        """Returns the first OK `END_COMMIT` or `END_ABORT` of a transaction that has one."""
        return first(event for event in self.ends(transaction, operation) if event.outcome is Outcome.OK)

    # Messages.

    def acknowledgements(self, message: Message) -> list[Event]:
        """Returns the OK events of the sends of a message."""
        sends = self.sends.get(message, [])
        return [event for send in sends for event in send.events if event.outcome is Outcome.OK]

    def possible_sends(self, message: Message) -> list[Send]:
        """Returns the sends that make a message possible."""
        return [send for send in self.sends.get(message, []) if send.possible]

    def aborted(self, message: Message) -> bool:
        """Says whether a message is possible, and only by aborted transactions."""
        sends = self.possible_sends(message)
        return bool(sends) and all(
            send.transaction is not None and self.fate(send.transaction) is Fate.ABORTED for send in sends
        )

    def effective_by(self, message: Message) -> list[Event]:
        """Returns the OK events of sends that make a message effective."""
        return [
            event
            for event in self.acknowledgements(message)
            if (transaction := transaction_of(event)) is None or self.fate(transaction) is Fate.COMMITTED
        ]

    def effective_messages(self) -> Iterator[Message]:
        """Yields the effective messages."""
        return (message for message in self.sends if self.effective_by(message))

    def offsets_by(self, message: Message, acknowledgements: list[Event]) -> dict[int, Event]:
        """Returns the offsets that some OK events gave a message, else those at which it was received.

        With each offset is the first event that gives it.
        """
        giving = [event for event in acknowledgements if event.offset != NONE]
        if acknowledgements and not giving:
            giving = self.receipts.get(message, [])
        return {
            offset: first(event for event in giving if event.offset == offset)
            for offset in sorted({event.offset for event in giving})
        }

    def place_of(self, message: Message, acknowledgements: list[Event]) -> Event | None:
        """Returns the event that gives a message its one offset.

        It is the first of the OK events with an offset by process and index, else the first receipt at
        the lowest offset.
        """
        if acknowledgements and chosen(acknowledgements).offset != NONE:
            return chosen(acknowledgements)
        receipts = [event for event in self.receipts.get(message, []) if event.offset != NONE]
        if not receipts:
            return None
        lowest = min(event.offset for event in receipts)
        return first(event for event in receipts if event.offset == lowest)
