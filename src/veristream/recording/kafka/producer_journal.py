"""What the journal of a producer has, whichever client it is: its sends and its transactions.

told = ProducerJournal(recording, "producer-0", "orders", failures)
told.open(init)
told.begin(begin)
told.finish(Operation.END_COMMIT, commit)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from veristream.history.events import NONE, Operation, Outcome
from veristream.history.identity import encode
from veristream.recording.journal import Call, Fields
from veristream.recording.rapid import Sends
from veristream.recording.recording import Recording


@dataclass(frozen=True, slots=True)
class Failures:
    """What the exceptions of a client, which are of one `kind`, say of a call."""

    kind: type[Exception]
    name: Callable[[Any], str]
    of_commit: Callable[[Any], Outcome]
    of_transaction: Callable[[Any], Outcome]


class Position(Protocol):
    """An offset of a partition."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def offset(self) -> int: ...


class ProducerJournal:
    """Notes what a producer does; the work itself is a function, and what it raises is noted and raised."""

    def __init__(self, recording: Recording, name: str, id_: str | None, failures: Failures) -> None:
        self.journal = recording.journal(name)
        self.epoch = NONE
        self.prefix = encode(self.journal.process, 0)[:-1]
        """The identity of a message without its number."""
        self._recording = recording
        self._id = id_
        self._failures = failures
        self._transaction = NONE
        self._is_open = False
        self._offsets: list[Call] = []
        self._sends: list[Sends] = []

    def sends(self, topic: str) -> Sends:
        """Returns a new journal of the sends to a topic."""
        sends = Sends(self.journal, self._recording.stream(topic))
        self._sends.append(sends)
        self._within()
        return sends

    def open(self, work: Callable[[], int]) -> None:
        """Notes that a transactional id is obtained; `work` returns the epoch."""
        call = self.journal.invoke(Operation.OPEN, group=self._group())
        self.epoch = NONE
        try:
            self.epoch = work()
        except self._failures.kind as failure:
            self.journal.indefinite(call, self._failures.name(failure))
            raise
        self.journal.ok(call, epoch=self.epoch)

    def begin(self, work: Callable[[], None]) -> None:
        """Notes that a transaction begins."""
        self._transaction += 1
        call = self._in_transaction(Operation.BEGIN)
        try:
            work()
        except self._failures.kind as failure:
            self.journal.fail(call, self._failures.name(failure))
            raise
        self._is_open = True
        self._within()
        self.journal.ok(call)

    def add_offsets(self, positions: Sequence[Position], group: int, work: Callable[[], None]) -> None:
        """Notes that offsets of a group are added to the transaction, which decides about them."""
        calls = [
            self.journal.invoke(
                Operation.COMMIT,
                stream=self._recording.stream(each.topic),
                partition=each.partition,
                offset=each.offset,
                group=group,
                transaction=self._transaction,
            )
            for each in positions
        ]
        try:
            work()
        except self._failures.kind as failure:
            for call in calls:
                self.journal.end(call, self._failures.of_commit(failure), self._failures.name(failure))
            raise
        self._offsets += calls

    def finish(self, operation: Operation, work: Callable[[], None]) -> None:
        """Notes that a transaction is ended; one whose end is not known may be ended again."""
        call = self._in_transaction(operation)
        try:
            work()
        except self._failures.kind as failure:
            self.journal.end(call, self._failures.of_transaction(failure), self._failures.name(failure))
            raise
        self.journal.ok(call)
        self._is_open = False
        self._within()
        ended = Outcome.OK if operation is Operation.END_COMMIT else Outcome.FAIL
        for each in self._offsets:
            self.journal.end(each, ended, "" if ended is Outcome.OK else "ABORTED")
        self._offsets = []

    def close(self) -> None:
        """Notes that the producer ends."""
        self.journal.note(Operation.CLOSE)

    def _in_transaction(self, operation: Operation) -> Call:
        fields: Fields = {"transaction": self._transaction, "group": self._group(), "epoch": self.epoch}
        return self.journal.invoke(operation, **fields)

    def _within(self) -> None:
        now = (self._transaction, self.epoch) if self._is_open else (NONE, NONE)
        for each in self._sends:
            each.within(*now)

    def _group(self) -> int:
        return NONE if self._id is None else self._recording.group(self._id)
