"""Buckets that are larger than the tables of small ones, with anomalies at known places."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.unit.history.checks.checked import OF_BUCKETS, context_of
from veristream.history.checks.bucket import check_bucket
from veristream.history.checks.parts import Part, settle
from veristream.history.checks.rows import COLUMNS, Columns, Rows
from veristream.history.events import Event, Operation, Outcome
from veristream.history.manifest import Manifest, Process, Stream
from veristream.history.properties import Property
from veristream.history.reasons import conclude
from veristream.history.schema import EVENTS
from veristream.history.verdicts import Judgement, Word

MESSAGES = 100_000
LOG = Manifest("test", (Process("p", "h"), Process("q", "h")), (Stream("log"),))
QUEUE = replace(LOG, streams=(Stream("queue", offsets=False),))
"""A producer and a consumer; the producer sends each message in a call, the consumer receives it."""


def _columns(offsets: NDArray[np.int64], numbers: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Returns `INVOKE`, `OK` and `RECEIVE` of one message after the other, in one partition."""
    count = len(numbers)
    each = np.arange(count)
    columns = {name: np.full(3 * count, -1, EVENTS.field(name).type.to_pandas_dtype()) for name in COLUMNS}
    columns["process"][:] = np.tile([0, 0, 1], count)
    columns["operation"][:] = np.tile([Operation.SEND, Operation.SEND, Operation.RECEIVE], count)
    columns["outcome"][:] = np.tile([Outcome.INVOKE, Outcome.OK, Outcome.OK], count)
    columns["index"][:] = np.stack((2 * each, 2 * each + 1, each), 1).ravel()
    columns["call"][:] = np.repeat(each, 3)
    columns["time_ns"][:] = np.arange(3 * count)
    columns["offset"][:] = np.stack((np.full(count, -1), offsets, offsets), 1).ravel()
    columns["number"][:] = np.repeat(numbers, 3)
    columns["digest"][:] = np.repeat(numbers * 3 + 1, 3)
    for name in ("stream", "partition", "producer"):
        columns[name][:] = 0
    return columns


def _check(columns: dict[str, NDArray[Any]], manifest: Manifest = LOG) -> dict[Property, Judgement]:
    rows = Rows(columns, _FromColumns(columns))
    context = context_of(manifest, (), 1)
    found: dict[Property, Part] = check_bucket(rows, context, OF_BUCKETS)
    return {each: conclude(each, manifest, settle(each, [found[each]])) for each in OF_BUCKETS}


class _FromColumns:
    """Events of columns in memory."""

    def __init__(self, columns: dict[str, NDArray[Any]]) -> None:
        self._columns = columns

    def tell(self, at: NDArray[np.int64], known: Columns) -> tuple[Event, ...]:
        """Returns the events at these positions."""
        return tuple(self._event(each) for each in at.tolist())

    def _event(self, at: int) -> Event:
        fields = {name: int(column[at]) for name, column in self._columns.items()}
        operation, outcome = Operation(fields.pop("operation")), Outcome(fields.pop("outcome"))
        return Event(operation=operation, outcome=outcome, **fields)


def test_one_partition_with_all_rows() -> None:
    each = np.arange(MESSAGES)
    columns = _columns(each, each * 7)
    found = _check(columns)
    assert {asked: judgement.word for asked, judgement in found.items()} == {
        Property.DELIVERED: Word.HELD,
        Property.PROCESSED: Word.NOT_OBSERVABLE,
        Property.ONCE: Word.HELD,
        Property.ORDER: Word.HELD,
        Property.ONE_OFFSET: Word.HELD,
        Property.NOTHING_NEW: Word.HELD,
        Property.READERS: Word.NOT_OBSERVABLE,
        Property.EXCLUSIVE: Word.NOT_OBSERVABLE,
        Property.FORWARD: Word.NOT_OBSERVABLE,
        Property.BOUNDED: Word.NOT_OBSERVABLE,
        Property.FINAL: Word.NOT_OBSERVABLE,
    }
    assert found[Property.DELIVERED].reason == f"{MESSAGES} acknowledged messages were received"
    assert found[Property.ORDER].reason == f"{2 * (MESSAGES - 1)} pairs of messages were in order"
    assert found[Property.ONCE].operations == 3 * MESSAGES


def test_numbers_spread_over_many_partitions() -> None:
    each, chance = np.arange(MESSAGES), np.random.default_rng(6)
    partition = chance.integers(0, 1000, MESSAGES)
    order = np.argsort(partition, kind="stable")
    offsets = np.empty(MESSAGES, np.int64)
    offsets[order] = each - np.searchsorted(partition[order], partition[order])
    columns = _columns(offsets, each)
    columns["partition"][:] = np.repeat(partition, 3)
    counts = np.bincount(partition)
    found = _check(columns)
    assert found[Property.ORDER].reason == f"{2 * int((counts - 1).sum())} pairs of messages were in order"
    assert found[Property.ONCE].reason == f"{MESSAGES} received messages came once each"
    assert found[Property.ONE_OFFSET].reason == f"{MESSAGES} offsets had one message each"
    # The last message of partition 700 goes before its first one, and comes twice.
    last = np.flatnonzero(partition == 700)[-1]
    columns["offset"][3 * last + 1] = 0
    for name in ("number", "digest"):
        columns[name][2] = columns[name][3 * last + 2]
    columns["partition"][2] = 700
    found = _check(columns)
    assert found[Property.ORDER].counts["nonmonotonic send"] == 1
    (send,) = (w.anomaly for w in found[Property.ORDER].witnesses if w.anomaly.kind == "nonmonotonic send")
    assert (send.partition, send.number) == (700, last)
    assert found[Property.ONCE].counts == {"duplicate": 1}


def test_more_anomalies_than_there_was_room_for() -> None:
    each = np.arange(MESSAGES)
    columns = _columns(each[::-1].copy(), each)
    columns["digest"][2::3] += 1
    order = np.random.default_rng(5).permutation(3 * MESSAGES)
    shuffled = {name: column[order] for name, column in columns.items()}
    found = _check(columns)
    assert _check(shuffled) == found
    assert found[Property.ORDER].counts == {
        "nonmonotonic poll": MESSAGES - 1,
        "nonmonotonic send": MESSAGES - 1,
    }
    assert [witness.anomaly.index for witness in found[Property.ORDER].witnesses[:3]] == [1, 2, 3]
    assert [witness.anomaly.number for witness in found[Property.ORDER].witnesses[3:]] == [1, 2, 3]
    assert found[Property.NOTHING_NEW].counts == {"altered": MESSAGES}


def test_every_second_message_is_skipped() -> None:
    each = np.arange(MESSAGES)
    columns = _columns(each, each)
    kept = (columns["operation"] == Operation.SEND) | (columns["number"] % 2 == 0)
    found = _check({name: column[kept] for name, column in columns.items()})
    assert found[Property.ORDER].counts == {"skipped poll": MESSAGES // 2 - 1}
    assert [w.anomaly.index for w in found[Property.ORDER].witnesses] == [2, 4, 6]
    assert [[e.number for e in w.events] for w in found[Property.ORDER].witnesses] == [
        [0, 1, 2],
        [2, 3, 4],
        [4, 5, 6],
    ]
    assert found[Property.DELIVERED].word is Word.NOT_OBSERVABLE
    assert found[Property.DELIVERED].reason.startswith(
        f"{MESSAGES // 2} of {MESSAGES} acknowledged messages"
    )


def test_two_producers_share_offsets() -> None:
    each = np.arange(MESSAGES)
    columns = _columns(each, each)
    other = _columns(each, each)
    for name in ("process", "producer"):
        other[name][other["operation"] == Operation.SEND] = 1
    other["producer"][:] = 1
    kept = other["operation"] == Operation.SEND
    both = {name: np.concatenate((columns[name], other[name][kept])) for name in columns}
    found = _check(both)[Property.ONE_OFFSET]
    assert found.counts == {"inconsistent offset": MESSAGES}
    assert [witness.anomaly.offset for witness in found.witnesses] == [0, 1, 2]


def test_a_queue_delivers_twice() -> None:
    each = np.arange(MESSAGES)
    columns = _columns(np.full(MESSAGES, -1), each)
    again = {name: column[columns["operation"] == Operation.RECEIVE] for name, column in columns.items()}
    again["index"] = again["index"] + MESSAGES
    found = _check({name: np.concatenate((columns[name], again[name])) for name in columns}, QUEUE)
    assert found[Property.ONCE].counts == {"duplicate": MESSAGES}
    assert found[Property.ORDER].reason == f"{MESSAGES - 1} pairs of messages were in order"
