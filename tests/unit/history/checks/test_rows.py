"""Rows: columns in memory, and the events behind them."""

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.history.checks.checked import OF_BUCKETS, check, context_of
from veristream.history.checks.bucket import check_bucket
from veristream.history.checks.parts import settle
from veristream.history.checks.rows import (
    COLUMNS,
    Files,
    Rows,
    columns_of,
    complete,
    from_batches,
    from_events,
    join,
)
from veristream.history.events import Event, Operation, Outcome
from veristream.history.manifest import Manifest, Process, Stream
from veristream.history.oracle.judge import judge
from veristream.history.properties import Property
from veristream.history.reasons import Evidence, conclude
from veristream.history.schema import EVENTS as EVENTS_SCHEMA
from veristream.history.store.reader import bucket_files, read_batches, read_manifest
from veristream.history.store.writer import HistoryWriter
from veristream.history.verdicts import Anomaly, Witness
from veristream_testing.histories.noisy import noisy_history
from veristream_testing.histories.notation import history

EVENTS = tuple(
    Event(
        0, each, each, Operation.SEND, Outcome.OK, 10 * each, 7, 0, 0, each, 0, each, error=f"error {each}"
    )
    for each in range(10)
)
LOG = Manifest("test", (Process("p"),), (Stream("log"),))
QUEUE = Manifest("test", (Process("p"),), (Stream("queue", offsets=False),))


def _written(folder: Path, manifest: Manifest, events: tuple[Event, ...], buckets: int) -> Manifest:
    writer = HistoryWriter(folder, buckets)
    for event in events:
        writer.append([event])
    writer.close(manifest)
    return read_manifest(folder)


def _read(folder: Path, manifest: Manifest, bucket: int, names: tuple[str, ...]) -> Rows:
    files = bucket_files(folder, manifest)[bucket]
    batches = (batch for path in files for batch in read_batches(path, manifest, bucket))
    return from_batches(batches, names, Files(tuple(files)))


def test_events_come_back_from_memory() -> None:
    rows = from_events(EVENTS)
    assert set(rows.columns) == set(COLUMNS)
    assert len(rows) == 10
    odd = rows.select(rows["number"] % 2 == 1)
    assert odd["offset"].tolist() == [1, 3, 5, 7, 9]
    last = odd.select(np.array([4, 0]))
    assert last.events([0, 1, 0]) == (EVENTS[9], EVENTS[1], EVENTS[9])
    both = join([last, rows])
    assert both["number"].tolist() == [9, 1, *range(10)]
    assert both.select(np.array([11, 1])).events([1, 0]) == (EVENTS[1], EVENTS[9])
    assert both.events([]) == ()


def test_events_come_back_from_files(tmp_path: Path) -> None:
    manifest = _written(tmp_path / "history", LOG, EVENTS, 1)
    first = bucket_files(tmp_path / "history", manifest)[0][0]
    first.with_name("part-0001.parquet").write_bytes(first.read_bytes())
    rows = _read(tmp_path / "history", manifest, 0, ("number", "process"))
    assert set(rows.columns) == {"number", "process"}
    assert rows["number"].tolist() == [*range(10), *range(10)]
    assert rows["number"].dtype == np.int64
    assert rows["process"].dtype == np.int32
    rows = pickle.loads(pickle.dumps(rows.select(rows["number"] < 3)))
    sketched = rows.events([5, 0, 4])
    assert [(event.number, event.process, event.error) for event in sketched] == [
        (2, 0, ""),
        (0, 0, ""),
        (1, 0, ""),
    ]
    witnesses = tuple(Witness(Anomaly("duplicate"), "twice", (event,)) for event in sketched)
    assert rows.events([]) == ()
    (completed,) = complete({Property.ONCE: Evidence(witnesses=witnesses)}).values()
    assert [event for each in completed.witnesses for event in each.events] == [
        EVENTS[2],
        EVENTS[0],
        EVENTS[1],
    ]


def test_columns_with_one_value_take_no_memory() -> None:
    names = ("number", "partition", "transaction")

    def batch(partition: list[int], transaction: int) -> pa.RecordBatch:
        columns = [[5] * len(partition), partition, [transaction] * len(partition)]
        return pa.RecordBatch.from_arrays(
            [
                pa.array(column, EVENTS_SCHEMA.field(name).type)
                for name, column in zip(names, columns, strict=True)
            ],
            names,
        )

    rows = from_batches([batch([3, 3], -1), batch([], 7), batch([3], -1)], names, Files(()))
    assert [rows[name].strides for name in names] == [(8,), (0,), (0,)]
    assert rows["partition"].tolist() == [3, 3, 3]
    rows = from_batches([batch([3, 3], -1), batch([4, 3], -1), batch([3], 2)], names, Files(()))
    assert [rows[name].strides for name in names] == [(8,), (4,), (8,)]
    assert rows["partition"].tolist() == [3, 3, 4, 3, 3]
    assert rows["transaction"].tolist() == [-1, -1, -1, -1, 2]


def test_a_history_of_one_partition_is_judged(tmp_path: Path) -> None:
    of = history("a>1@0 a>2@1 b<a1@0 b<a2@1 b<a1@2 b=3 bE0-3 c<?@3 cE0-4 a>3@2")
    manifest = _written(tmp_path / "history", of.manifest, of.events, 1)
    rows = _read(tmp_path / "history", manifest, 0, columns_of(OF_BUCKETS, manifest))
    assert rows["partition"].strides == (0,)
    parts = check_bucket(rows, context_of(manifest, of.events, 1), OF_BUCKETS)
    evidence = complete({each: settle(each, [parts[each]]) for each in OF_BUCKETS})
    found = tuple(conclude(each, manifest, evidence[each]) for each in OF_BUCKETS)
    assert found == judge(manifest, of.events, OF_BUCKETS)


def test_no_batches_are_no_rows() -> None:
    rows = from_batches([], ("number", "operation"), Files(()))
    assert len(rows) == 0
    assert rows["operation"].dtype == np.int8


def test_columns_depend_on_what_is_asked() -> None:
    assert "digest" in columns_of([Property.NOTHING_NEW], LOG)
    assert "digest" not in columns_of([Property.DELIVERED, Property.ORDER], LOG)
    assert "attempt" in columns_of([Property.ORDER], QUEUE)
    assert {"attempt", "group"}.isdisjoint(columns_of([Property.ORDER], LOG))
    assert "wall_us" not in columns_of(tuple(Property), QUEUE)


@pytest.mark.parametrize("asked", Property)
def test_each_property_needs_no_other_columns(asked: Property) -> None:
    for seed in range(10):
        of = noisy_history(seed)
        assert check(of.manifest, of.events, [asked]) == judge(of.manifest, of.events, [asked])


def test_a_history_on_disk_is_judged_with_its_witnesses(tmp_path: Path) -> None:
    of = noisy_history(4)
    events = tuple(replace(event, error=f"e{event.index}", wall_us=event.index) for event in of.events)
    manifest = _written(tmp_path / "history", of.manifest, events, 3)
    context = context_of(manifest, events, 3)
    names = columns_of(OF_BUCKETS, manifest)
    parts = [
        check_bucket(_read(tmp_path / "history", manifest, bucket, names), context, OF_BUCKETS)
        for bucket in range(3)
    ]
    asked = [each for each in OF_BUCKETS if each is not Property.BOUNDED or not context.spread]
    evidence = complete({each: settle(each, [part[each] for part in parts]) for each in asked})
    found = [conclude(each, manifest, evidence[each]) for each in asked]
    assert found == list(judge(manifest, events, asked))
    assert any(event.error for judgement in found for w in judgement.witnesses for event in w.events)
