"""What the tasks of an audit do, each for a bucket, a range of indices or a part of what is joined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veristream.history.checks.bucket import check_bucket, check_spread
from veristream.history.checks.parts import Part
from veristream.history.checks.rows import Rows, columns_of, from_batches, join
from veristream.history.checks.transactions.bucket import (
    DECIDED,
    Sent,
    Telling,
    Wanted,
    check_transactions,
    tell_transactions,
)
from veristream.history.checks.transactions.cycles import Cycles, Edges, judge_edges
from veristream.history.checks.transactions.fenced import check_fenced
from veristream.history.checks.transactions.whole import Readings, Torn, judge_readings
from veristream.history.events import Operation, Outcome
from veristream.history.job import index
from veristream.history.job.engine import RESULT
from veristream.history.job.layout import Layout, Range
from veristream.history.job.memory import enough_memory
from veristream.history.job.plan import Plan, Spans, Survey, context_of, survey
from veristream.history.job.whole import Ends, find_ends
from veristream.history.properties import Property
from veristream.history.store.reader import read_batches

ROWS_SENT: Final = 1 << 20
"""How many rows go to a part in one piece."""

_BESIDE: Final = (*DECIDED, Property.FENCED)
"""Properties that `check_bucket` does not decide."""

_COUNTED: Final = ((Operation.SEND, Outcome.OK), (Operation.RECEIVE, Outcome.OK))


@dataclass(frozen=True, slots=True)
class Looking:
    """The first tasks: of pieces of the index, then of buckets to be surveyed."""

    layout: Layout
    pieces: tuple[Range, ...]

    def run(self, number: int) -> index.Seen | Survey:
        """Does a task."""
        with enough_memory(self.layout):
            if number < len(self.pieces):
                return index.scan(self.layout, self.pieces[number])
            return survey(self.layout, number - len(self.pieces))


@dataclass(frozen=True, slots=True)
class Found:
    """What a task found: parts of evidence, and acknowledged and received messages by span."""

    parts: dict[Property, Part] = field(default_factory=dict)
    spans: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True)
class Checking:
    """The tasks that check: of each bucket, of fenced producers, and of queues in several buckets.

    Readings of transactions are joined in `parts` by transaction, and edges between them in one more.
    """

    plan: Plan
    parts: int

    @property
    def count(self) -> int:
        """How many tasks there are."""
        return self.plan.layout.buckets + self._fenced + len(self._spread)

    @property
    def _fenced(self) -> bool:
        return Property.FENCED in self.plan.asked

    @property
    def _spread(self) -> list[int]:
        return sorted(self.plan.spread) if Property.BOUNDED in self.plan.asked else []

    def run(self, number: int) -> Iterator[tuple[int, Any]]:
        """Does a task."""
        with enough_memory(self.plan.layout):
            yield from self._run(number)

    def _run(self, number: int) -> Iterator[tuple[int, Any]]:
        buckets = self.plan.layout.buckets
        if number < buckets:
            yield from self._check(number)
        elif number == buckets and self._fenced:
            evidence = check_fenced(context_of(self.plan)[0])
            yield RESULT, Found({Property.FENCED: Part(evidence)})
        else:
            stream = self._spread[number - buckets - self._fenced]
            part = check_spread(_read_queue(self.plan.layout, stream), context_of(self.plan)[0])
            yield RESULT, Found({Property.BOUNDED: part})

    def map(self, number: int) -> Found:
        """Does a task that sends nothing to any part."""
        (result,) = (sent for part, sent in self.run(number) if part == RESULT)
        assert isinstance(result, Found)
        return result

    def join(self, part: int, sent: list[Any]) -> Torn | Cycles:
        """Joins what was sent to a part."""
        with enough_memory(self.plan.layout):
            if part < self.parts:
                return judge_readings([*sent, _NO_READINGS])
            return judge_edges([*sent, _NO_EDGES])

    def _check(self, bucket: int) -> Iterator[tuple[int, Any]]:
        plan = self.plan
        context, ledger = context_of(plan)
        rows = read_bucket(plan, bucket)
        own = [each for each in plan.asked if each not in _BESIDE]
        found = check_bucket(rows, context, own) if own else {}
        sent = check_transactions(rows, context, ledger, plan.asked)
        parts = found | {each: Part(evidence) for each, evidence in sent.evidence.items()}
        yield RESULT, Found(parts, None if plan.spans is None else _count(rows, plan.spans))
        yield from self._send(sent)

    def _send(self, sent: Sent) -> Iterator[tuple[int, Any]]:
        if sent.readings is not None:
            part_of = sent.readings.transaction % self.parts
            for part in range(self.parts):
                rows = np.flatnonzero(part_of == part)
                for begin in range(0, rows.size, ROWS_SENT):
                    yield part, sent.readings.select(rows[begin : begin + ROWS_SENT])
        if sent.edges is not None:
            for begin in range(0, sent.edges.source.size, ROWS_SENT):
                yield self.parts, sent.edges.select(slice(begin, begin + ROWS_SENT))


_EMPTY: Final = np.empty(0, np.int64)
_NO_READINGS: Final = Readings(_EMPTY, _EMPTY, _EMPTY, _EMPTY, _EMPTY)
_NO_EDGES: Final = Edges(_EMPTY, _EMPTY, np.empty(0, np.bool_))


@dataclass(frozen=True, slots=True)
class Explaining:
    """The tasks that read the events of anomalies of transactions: of each bucket, then of their ends."""

    plan: Plan
    wanted: Wanted

    @property
    def count(self) -> int:
        """How many tasks there are."""
        return self.plan.layout.buckets + 1

    def run(self, number: int) -> Telling | Ends:
        """Does a task."""
        with enough_memory(self.plan.layout):
            context, ledger = context_of(self.plan)
            if number < self.plan.layout.buckets:
                return tell_transactions(read_bucket(self.plan, number), context, ledger, self.wanted)
            return find_ends(self.wanted, ledger)


def read_bucket(plan: Plan, bucket: int) -> Rows:
    """Reads the columns of a bucket that the checks need; a row that breaks a rule is an error."""
    layout = plan.layout
    names = columns_of(plan.asked, layout.manifest)
    if plan.spans is not None:
        names = tuple(dict.fromkeys((*names, "time_ns")))
    batches = (
        batch
        for path in layout.files[bucket]
        for batch in read_batches(layout.require(path), layout.manifest, bucket)
    )
    return from_batches(batches, names, layout.source(bucket))


def _read_queue(layout: Layout, stream: int) -> Rows:
    """Reads what is counted as in flight of a queue, from all buckets."""
    names = list(columns_of([Property.BOUNDED], layout.manifest))
    operations = [Operation.RECEIVE, Operation.ACKNOWLEDGE, Operation.REJECT]
    parts = []
    for group in layout.groups:
        batch = layout.read(group, names)
        columns = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in names}
        rows = np.flatnonzero((columns["stream"] == stream) & np.isin(columns["operation"], operations))
        chosen = {name: column[rows] for name, column in columns.items()}
        parts.append(Rows(chosen, layout.source(group.bucket), rows + group.at))
    return join(parts)


def _count(rows: Rows, spans: Spans) -> NDArray[np.int64]:
    """Counts acknowledged and received messages in each span."""
    span = (rows["time_ns"] - spans.begin_ns) // spans.span_ns
    return np.stack(
        [
            np.bincount(
                span[(rows["operation"] == operation) & (rows["outcome"] == outcome)],
                minlength=spans.count,
            )
            for operation, outcome in _COUNTED
        ]
    )
