"""Histories of logs with planted anomalies, made with NumPy: the place of every event is a formula.

Message `a` of partition `p` has the offset `2 * a`, so that offsets are left for what is planted. Producers
take turns; each consumer reads some of the partitions, message by message, to their ends. One more process
sends and receives what nobody else would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristream.history.events import Operation, Outcome
from veristream.history.manifest import Manifest, Process, Stream
from veristream.history.store.writer import HistoryWriter
from veristream.history.verdicts import Anomaly

Longs = NDArray[np.int64]

PARTITIONS, PRODUCERS, CONSUMERS, BUCKETS = 64, 8, 8, 32
STRANGER = PRODUCERS + CONSUMERS
MESSAGES_AT_ONCE = 200_000
SPACING = 8
"""At most one of so many neighbouring messages of a partition is touched."""

LOST, DUPLICATE, AGAIN, SKIPPED, CONFLICT, UNEXPECTED = range(6)
"""What is planted at a message: its receipt is left out; it comes again at another offset, or at its own;
the stranger receives it; the stranger's message gets its offset; a message comes that nobody sent."""

SHIFT = np.array([-1, 1, 1, -1, 0, 1])
"""How many events more the consumer has."""

NEVER_SENT = 1 << 40
LATER_NS = 50_000_000


@dataclass(frozen=True)
class Plan:
    """How many messages each partition has, and what is planted where: kinds, and places `a`, `p`."""

    messages: int
    kind: Longs
    a: Longs
    p: Longs

    @property
    def events(self) -> int:
        """The number of events."""
        return 3 * PARTITIONS * self.messages + self._more

    @property
    def _more(self) -> int:
        strange = int(np.isin(self.kind, (SKIPPED, CONFLICT)).sum())
        return int(SHIFT[self.kind].sum()) + 2 * strange + 2 * PARTITIONS

    @cached_property
    def shifts(self) -> list[tuple[Longs, Longs]]:
        """For each consumer the ranks of its planted messages, and the events more up to each of them."""
        found = []
        for consumer in range(CONSUMERS):
            mine = self.p % CONSUMERS == consumer
            rank = rank_of(self.a[mine], self.p[mine])
            order = np.argsort(rank)
            found.append((rank[order], np.concatenate([[0], np.cumsum(SHIFT[self.kind[mine]][order])])))
        return found

    def index_of(self, a: Longs, p: Longs) -> Longs:
        """Returns the index of the receipts of messages, in the consumers of their partitions."""
        rank = rank_of(a, p)
        index = rank.copy()
        for consumer, (ranks, more) in enumerate(self.shifts):
            mine = p % CONSUMERS == consumer
            index[mine] += more[np.searchsorted(ranks, rank[mine])]
        return index


def rank_of(a: Longs, p: Longs) -> Longs:
    """Returns how many messages the consumer of a partition receives before."""
    ranks: Longs = a * (PARTITIONS // CONSUMERS) + p // CONSUMERS
    return ranks


def make_plan(events: int, each: int, seed: int = 1) -> Plan:
    """Returns a history of about so many events, with so many of each kind planted."""
    messages = events // (3 * PARTITIONS)
    cells = (messages // SPACING - 1) * PARTITIONS
    chosen = np.random.default_rng(seed).choice(cells, 6 * each, replace=False)
    a = chosen // PARTITIONS * SPACING + SPACING // 2
    kind = np.repeat(np.arange(6), each)
    order = np.lexsort((chosen % PARTITIONS, a))
    return Plan(messages, kind[order], a[order], (chosen % PARTITIONS)[order])


def anomalies(plan: Plan) -> list[Anomaly]:
    """Returns what an audit must find: all of it, and nothing else."""
    found: list[Anomaly] = []
    number = 0
    following = plan.index_of(plan.a + 1, plan.p)
    own = plan.index_of(plan.a, plan.p)
    for place, (kind, a, p) in enumerate(zip(plan.kind, plan.a.tolist(), plan.p.tolist(), strict=True)):
        consumer = PRODUCERS + p % CONSUMERS
        named: dict[str, Any] = {"stream": 0, "partition": p}
        message = {"producer": a % PRODUCERS, "number": a // PRODUCERS * PARTITIONS + p}
        if kind == LOST:
            found.append(Anomaly("lost write", **named, **message))
        if kind in (LOST, SKIPPED):
            found.append(Anomaly("skipped poll", **named, process=consumer, index=int(following[place])))
        elif kind == DUPLICATE:
            found.append(Anomaly("duplicate", **named, **message))
        elif kind == AGAIN:
            found.append(Anomaly("nonmonotonic poll", **named, process=consumer, index=int(own[place]) + 1))
        elif kind == CONFLICT:
            found.append(Anomaly("inconsistent offset", **named, offset=2 * a))
            found.append(Anomaly("lost write", **named, producer=STRANGER, number=number))
            number += 1
        elif kind == UNEXPECTED:
            found.append(Anomaly("unexpected", **named, producer=a % PRODUCERS, number=NEVER_SENT + place))
    return sorted(found)


def write(folder: Path, plan: Plan) -> None:
    """Writes the history, bucket by bucket, each in the order of time."""
    writer = HistoryWriter(folder, BUCKETS)
    step = max(1, MESSAGES_AT_ONCE // (PARTITIONS // BUCKETS))
    for bucket in range(BUCKETS):
        partitions = np.arange(bucket, PARTITIONS, BUCKETS)
        for first in range(0, plan.messages, step):
            rows = np.arange(first, min(first + step, plan.messages))
            writer.append_columns(
                _messages(plan, np.repeat(rows, partitions.size), np.tile(partitions, rows.size))
            )
    for columns in (_extra(plan), _strange(plan), _ends(plan)):
        writer.append_columns(columns)
    processes = [f"producer-{each}" for each in range(PRODUCERS)]
    processes += [f"consumer-{each}" for each in range(CONSUMERS)]
    named = tuple(Process(name, "host") for name in [*processes, "stranger"])
    writer.close(Manifest("bench", named, (Stream("events"),), workload="planted"))


Columns = Mapping[str, NDArray[Any]]


def _digest(producer: Longs, number: Longs) -> Longs:
    return (producer * 1_000_003 + number * 2_654_435_761) | 1


def _messages(plan: Plan, a: Longs, p: Longs) -> Columns:
    """Returns the two events of sending and the one of receiving each message."""
    producer, number = a % PRODUCERS, a // PRODUCERS * PARTITIONS + p
    count = a.size
    columns: dict[str, NDArray[Any]] = {
        "process": np.empty((count, 3), np.int32),
        "index": np.empty((count, 3), np.int64),
        "call": np.empty((count, 3), np.int64),
        "time_ns": np.empty((count, 3), np.int64),
        "offset": np.empty((count, 3), np.int64),
    }
    time_ns = (a * PARTITIONS + p) * 1000
    received = plan.index_of(a, p)
    for place, values in enumerate(
        (
            (producer, 2 * number, number, time_ns, -1),
            (producer, 2 * number + 1, number, time_ns + 300, 2 * a),
            (PRODUCERS + p % CONSUMERS, received, received, time_ns + LATER_NS, 2 * a),
        )
    ):
        for name, value in zip(columns, values, strict=True):
            columns[name][:, place] = value
    columns |= {
        "operation": np.tile(
            np.array([Operation.SEND, Operation.SEND, Operation.RECEIVE], np.int8), (count, 1)
        ),
        "outcome": np.tile(np.array([Outcome.INVOKE, Outcome.OK, Outcome.OK], np.int8), (count, 1)),
    }
    for name, value in (("producer", producer), ("number", number), ("digest", _digest(producer, number))):
        columns[name] = np.repeat(value, 3).reshape(count, 3)
    columns["partition"] = np.repeat(p, 3).reshape(count, 3)
    kept = np.ones((count, 3), np.bool_)
    missing = np.isin(plan.kind, (LOST, SKIPPED))
    gone = np.isin(a * PARTITIONS + p, plan.a[missing] * PARTITIONS + plan.p[missing])
    kept[gone, 2] = False
    return _typed({name: values[kept] for name, values in columns.items()})


def _extra(plan: Plan) -> Columns:
    """Returns the receipts that consumers have besides those of all messages."""
    chosen = np.isin(plan.kind, (DUPLICATE, AGAIN, UNEXPECTED))
    place, kind, a, p = np.flatnonzero(chosen), plan.kind[chosen], plan.a[chosen], plan.p[chosen]
    producer = a % PRODUCERS
    number = np.where(kind == UNEXPECTED, NEVER_SENT + place, a // PRODUCERS * PARTITIONS + p)
    index = plan.index_of(a, p) + 1
    return _typed(
        {
            "process": PRODUCERS + p % CONSUMERS,
            "index": index,
            "call": index,
            "operation": np.full(a.size, Operation.RECEIVE),
            "outcome": np.full(a.size, Outcome.OK),
            "time_ns": (a * PARTITIONS + p) * 1000 + LATER_NS,
            "partition": p,
            "offset": np.where(kind == AGAIN, 2 * a, 2 * a + 1),
            "producer": producer,
            "number": number,
            "digest": _digest(producer, number),
        }
    )


def _strange(plan: Plan) -> Columns:
    """Returns the events of the stranger: a seek and a receipt, or a send that gets a taken offset."""
    chosen = np.isin(plan.kind, (SKIPPED, CONFLICT))
    skipped, a, p = plan.kind[chosen] == SKIPPED, plan.a[chosen], plan.p[chosen]
    count = a.size
    sent = np.cumsum(~skipped) - 1
    producer = np.where(skipped, a % PRODUCERS, STRANGER)
    number = np.where(skipped, a // PRODUCERS * PARTITIONS + p, sent)
    digest = _digest(producer, number)
    index = np.arange(2 * count).reshape(count, 2)
    pair = (
        np.stack([np.where(skipped, Operation.SEEK, Operation.SEND), np.where(skipped, -1, producer)]),
        np.stack([np.where(skipped, Operation.RECEIVE, Operation.SEND), producer]),
    )
    columns: dict[str, NDArray[Any]] = {
        "process": np.full((count, 2), STRANGER),
        "index": index,
        "call": np.where(skipped[:, None], index, index[:, :1]),
        "operation": np.stack([each[0] for each in pair], 1),
        "outcome": np.stack([np.where(skipped, Outcome.OK, Outcome.INVOKE), np.full(count, Outcome.OK)], 1),
        "time_ns": np.repeat((a * PARTITIONS + p) * 1000 + LATER_NS, 2).reshape(count, 2),
        "partition": np.repeat(p, 2).reshape(count, 2),
        "offset": np.stack([np.where(skipped, 2 * a, -1), 2 * a], 1),
        "producer": np.stack([each[1] for each in pair], 1),
        "number": np.stack([np.where(skipped, -1, number), number], 1),
        "digest": np.stack([np.where(skipped, 0, digest), digest], 1),
    }
    return _typed({name: values.ravel() for name, values in columns.items()})


def _ends(plan: Plan) -> Columns:
    """Returns the readings to the end of all partitions."""
    p = np.arange(PARTITIONS)
    total = plan.index_of(np.full(CONSUMERS, plan.messages), np.arange(CONSUMERS))
    first = total[p % CONSUMERS] + 2 * (p // CONSUMERS)
    columns: dict[str, NDArray[Any]] = {
        "process": np.repeat(PRODUCERS + p % CONSUMERS, 2),
        "index": np.stack([first, first + 1], 1).ravel(),
        "call": np.repeat(first, 2),
        "operation": np.full(2 * PARTITIONS, Operation.READ_TO_END),
        "outcome": np.tile([Outcome.INVOKE, Outcome.OK], PARTITIONS),
        "time_ns": np.full(2 * PARTITIONS, (plan.messages + 1) * PARTITIONS * 1000 + LATER_NS),
        "partition": np.repeat(p, 2),
        "offset": np.tile([-1, 2 * plan.messages], PARTITIONS),
        "number": np.tile([-1, 0], PARTITIONS),
    }
    return _typed(columns)


_TYPES = {
    "process": np.int32,
    "operation": np.int8,
    "outcome": np.int8,
    "partition": np.int32,
    "producer": np.int32,
}


def _typed(columns: Columns) -> Columns:
    """Returns the columns with the types of the schema, and the one stream."""
    typed = {
        name: np.ascontiguousarray(values, _TYPES.get(name, np.int64)) for name, values in columns.items()
    }
    return {**typed, "stream": np.zeros(typed["process"].size, np.int32)}
