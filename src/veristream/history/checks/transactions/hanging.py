"""`no transaction hangs`: of the few reads to the end of each bucket, and of all transactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from veristream.history.checks.context import Context
from veristream.history.checks.rows import Rows
from veristream.history.checks.transactions.clocks import Clocks
from veristream.history.checks.transactions.keys import Bools, Longs, pack, starts_of
from veristream.history.events import NONE, Event, Operation, Outcome
from veristream.history.reasons import Evidence
from veristream.history.verdicts import Anomaly, Witness
from veristream.history.witnesses import ABSENCE, first_of_each, make_witness, order_of

_KIND: Final = "hanging transaction"
_UNDER_WAY: Final = np.iinfo(np.int64).max


def check_hanging(rows: Rows, context: Context) -> Evidence:
    """Returns what a bucket shows of the property; its `operations` are not counted."""
    manifest = context.manifest
    if not manifest.transactions_recorded or not manifest.producers_complete:
        return Evidence()
    over = _find_over(rows, context)
    logs = np.array([each.offsets for each in manifest.streams] + [False])
    is_read = (rows["operation"] == Operation.READ_TO_END) & logs[rows["stream"]]
    reads = _find_reads(rows.events(np.flatnonzero(is_read)))
    check = _Check(rows, context, [each for each in reads if each.tells_length])
    asked = [each for each in reads if not each.tells_length and over.before(each, context)]
    decided = [each for each in asked if check.lengths_after(each)]
    found = [one for each in decided if (one := check.decide(each)) is not None]
    if not manifest.complete and _KIND in ABSENCE:
        found = []
    counts = {_KIND: len(found)} if found else {}
    return Evidence(0, len(asked), len(asked) - len(decided), False, counts, first_of_each(found))


@dataclass(frozen=True, slots=True)
class _Over:
    """The transactions that send to each partition of a bucket, and when each was over: index, and time.

    Those that sent to no known partition of a stream count in all of its partitions.
    """

    stream: Longs
    partition: Longs
    process: Longs
    index: Longs
    time_ns: Longs

    def before(self, read: _Read, context: Context) -> bool:
        """Says whether there were transactions in what is read, and all of them were over before."""
        stream, partition = read.place
        here = (self.stream == stream) & ((self.partition == partition) | (self.partition == NONE))
        process, begin = self.process[here], read.begin
        reader = np.full(process.size, begin.process)
        earlier = Clocks(context).comparable(process, reader) & (self.time_ns[here] < begin.time_ns)
        own = process == begin.process
        return bool(process.size) and bool(np.where(own, self.index[here] < begin.index, earlier).all())


def _find_over(rows: Rows, context: Context) -> _Over:
    names = ("stream", "partition", "process", "transaction")
    parts = [
        {name: each[name][chosen].astype(np.int64) for name in names}
        for each in (rows, context.strays)
        for chosen in [(each["operation"] == Operation.SEND) & (each["transaction"] != NONE)]
    ]
    sent = {name: np.concatenate([part[name] for part in parts]) for name in names}
    order = np.lexsort([sent[name] for name in reversed(names)])
    sent = {name: column[order] for name, column in sent.items()}
    firsts = starts_of(*(sent[name] for name in names))
    sent = {name: column[firsts] for name, column in sent.items()}
    index, time_ns = _find_ends(context, sent["process"], sent["transaction"])
    return _Over(sent["stream"], sent["partition"], sent["process"], index, time_ns)


def _find_ends(context: Context, process: Longs, transaction: Longs) -> tuple[Longs, Longs]:
    """Returns index and time of the first OK end by index of each transaction; `_UNDER_WAY` without one."""
    control = context.control
    operation = control["operation"]
    is_end = (operation == Operation.END_COMMIT) | (operation == Operation.END_ABORT)
    ends = np.flatnonzero(is_end & (control["outcome"] == Outcome.OK) & (control["transaction"] != NONE))
    key = pack(
        [
            np.concatenate([control["process"][ends].astype(np.int64), process]),
            np.concatenate([control["transaction"][ends].astype(np.int64), transaction]),
        ]
    )
    known, first = np.unique(key[: ends.size], return_index=True)  # the control is ordered by index
    if not known.size:
        never = np.full(process.size, _UNDER_WAY)
        return never, never
    at = np.minimum(np.searchsorted(known, key[ends.size :]), known.size - 1)
    over, row = known[at] == key[ends.size :], ends[first[at]]
    index, time_ns = (np.where(over, control[name][row], _UNDER_WAY) for name in ("index", "time_ns"))
    return index, time_ns


@dataclass(frozen=True, slots=True)
class _Read:
    """A call that read a partition to its end, by the events with which it began and ended OK."""

    begin: Event
    end: Event

    @property
    def place(self) -> tuple[int, int]:
        return self.end.stream, self.end.partition

    @property
    def tells_length(self) -> bool:
        """Whether it only tells how long the log is."""
        return self.end.number == self.end.offset > 0


def _find_reads(events: Sequence[Event]) -> list[_Read]:
    begins: dict[tuple[int, int], Event] = {}
    for event in sorted(events, key=lambda each: (each.process, each.index)):
        begins.setdefault((event.process, event.call), event)
    return [
        _Read(begins[event.process, event.call], event) for event in events if event.outcome is Outcome.OK
    ]


@dataclass(frozen=True, slots=True)
class _Check:
    rows: Rows
    context: Context
    lengths: list[_Read]

    def lengths_after(self, read: _Read) -> list[Event]:
        """Returns the reads after one that tell how long its log is."""
        same = (each for each in self.lengths if each.place == read.place)
        return [each.end for each in same if self._before(read.end, each.begin)]

    def decide(self, read: _Read) -> Witness | None:
        """Returns what shows that a reader was held up; None if nothing does."""
        later = self.lengths_after(read)
        there = self._sends(read, max(each.offset for each in later))
        if not there.size:
            return None
        offsets = self.rows["offset"][there]
        lowest = int(offsets.min())
        sent = min(self.rows.events(there[offsets == lowest]), key=order_of)
        length = min((each for each in later if each.offset > lowest), key=order_of)
        one = read.end
        anomaly = Anomaly(
            _KIND, stream=one.stream, partition=one.partition, process=one.process, index=one.index
        )
        return make_witness(anomaly, [sent, one, length], self.context.manifest)

    def _sends(self, read: _Read, end: int) -> Longs:
        """Returns the acknowledged messages from where a read ended to the end, sent before it."""
        rows, one = self.rows, read.end
        found: Bools = (rows["operation"] == Operation.SEND) & (rows["outcome"] == Outcome.OK)
        found &= (rows["stream"] == one.stream) & (rows["partition"] == one.partition)
        found &= (rows["offset"] != NONE) & (rows["offset"] >= one.offset) & (rows["offset"] < end)
        there = np.flatnonzero(found)
        process = rows["process"][there]
        reader = np.full(there.size, one.process)
        known = Clocks(self.context).comparable(process, reader)
        earlier = known & (rows["time_ns"][there] < read.begin.time_ns)
        before = np.where(process == one.process, rows["index"][there] < read.begin.index, earlier)
        return there[before]

    def _before(self, end: Event, begin: Event) -> bool:
        if end.process == begin.process:
            return end.index < begin.index
        return self.context.comparable(end.process, begin.process) and end.time_ns < begin.time_ns
