"""Audits of whole folders in this process: as the plain checker judges, and what is wrong is told."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import veristream as vs
from tests.unit.history.job.recorded import (
    audit_json,
    expected_json,
    forget_count,
    record,
    record_loose,
    table_of,
)
from veristream.errors import EnvironmentFailure, ModelError
from veristream.history.audited import Moment, Timeline
from veristream.history.events import Event, Operation, Outcome
from veristream.history.job import sort
from veristream.history.job.audit import audit
from veristream.history.job.engine import Here, Joining, Sending, Work
from veristream.history.job.layout import read_layout
from veristream.history.job.plan import make_plan, survey
from veristream.history.job.run import Options, audit_folder, silent
from veristream.history.job.tasks import read_bucket
from veristream.history.manifest import Manifest
from veristream.history.properties import Property
from veristream.history.store.bucket import bucket_folder
from veristream.history.store.reader import read_events, read_manifest, to_events
from veristream.history.verdicts import Word
from veristream_testing.histories.history import History
from veristream_testing.histories.notation import LOG, QUEUE, history

LOST = history("a>1@0 a>2/1@0 b<a1@0 bE0-1 bE0-1/1")
MIXED = history(
    "ao1 a[1 a>1@0 a>2/1@0 a]1 b<a1@0 bE0-1 bE0-1/1 cr2.1^1 a>3.1 a>4.1/1 a>5.1/2 "
    "c<a3.1^1 c<a4.1/1^1 c<a5.1/2^1 c+a3.1^1 c<a3.1^1 cC",
    LOG,
    QUEUE,
)


@pytest.mark.parametrize("buckets", [1, 2, 5, 40])
@pytest.mark.parametrize("backwards", [True, False])
@pytest.mark.parametrize("of", [LOST, MIXED], ids=["lost", "mixed"])
def test_as_the_plain_checker(tmp_path: Path, of: History, buckets: int, backwards: bool) -> None:
    folder = record(tmp_path / "h", of, buckets, backwards)
    assert audit_json(folder) == expected_json(read_manifest(folder), of.events)


def test_one_property_alone(tmp_path: Path) -> None:
    folder = record(tmp_path / "h", MIXED)
    for each in Property:
        assert audit_json(folder, [each]) == expected_json(read_manifest(folder), MIXED.events, [each])


def test_no_events_at_all(tmp_path: Path) -> None:
    found = audit_folder(record(tmp_path / "h", replace(LOST, events=())), options=Options(None, True))
    assert {one.word for one in found.judgements} == {Word.NOT_OBSERVABLE}
    assert (found.events, found.timeline) == (0, None)


def test_queues_in_several_buckets_are_known(tmp_path: Path) -> None:
    folder = record(tmp_path / "h", MIXED, 5)
    layout = read_layout(folder, read_manifest(folder))
    surveys = [survey(layout, bucket) for bucket in range(5)]
    plan = make_plan(layout, list(Property), np.zeros(3, np.bool_), surveys)
    assert plan.spread == {1}
    assert plan.subscriptions == {1: (1,)}
    judgements = audit_folder(folder, [Property.BOUNDED]).judgements
    assert judgements[0].counts == {"overrun": 2}
    assert judgements[0].operations == 4 + 2 + 1


def test_from_python(tmp_path: Path) -> None:
    folder = record(tmp_path / "h", LOST)
    found = vs.audit(folder, properties=["order", "at most once", "means delivered"])
    assert [one.property for one in found.judgements] == [
        "order",
        "at most once",
        "acknowledged means delivered",
    ]
    assert found.judgements[2].counts == {"lost write": 1}
    assert found.history == str(folder)
    assert len(vs.audit(str(folder)).judgements) == len(Property)


def test_names_that_are_not_clear(tmp_path: Path) -> None:
    folder = record(tmp_path / "h", LOST)
    with pytest.raises(ModelError, match="several properties match acknowledged"):
        vs.audit(folder, properties=["acknowledged"])
    with pytest.raises(ModelError, match="an audit has no property called nothing at all"):
        vs.audit(folder, properties=["nothing at all"])


# Recordings of others.

JEPSEN = """
{:index 0 :time 1000 :type :invoke :process 0 :f :send :value [[:send 0 7]]}
{:index 1 :time 2000 :type :ok :process 0 :f :send :value [[:send 0 [0 7]]]}
{:index 2 :time 3000 :type :invoke :process 0 :f :send :value [[:send 0 8]]}
{:index 3 :time 4000 :type :ok :process 0 :f :send :value [[:send 0 [0 8]]]}
"""


def test_a_recording_of_another_kind_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = tmp_path / "history.edn"
    path.write_text(JEPSEN, encoding="utf-8")
    found = vs.audit(path, properties=["one offset, one message"])
    assert (found.history, found.manifest.source) == (str(path), "jepsen")
    assert found.judgements[0].counts == {"inconsistent offset": 1}
    assert [each.name for each in tmp_path.iterdir()] == ["history.edn"]


def test_a_cluster_does_not_import(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text(JEPSEN, encoding="utf-8")
    with pytest.raises(ModelError) as error:
        vs.audit(path, master="spark://127.0.0.1:1")
    assert error.value.message == f"`{path}` is a Jepsen history in EDN, which a cluster does not read"


# Over time.


def test_timeline(tmp_path: Path) -> None:
    found = audit_folder(record(tmp_path / "h", LOST), options=Options(None, True))
    assert found.timeline is not None
    assert found.timeline.span_ns == 1
    counts = {
        moment.begin_ns: (moment.acknowledged, moment.received)
        for moment in found.timeline.moments
        if moment.acknowledged or moment.received
    }
    assert counts == {10: (1, 0), 30: (1, 0), 40: (0, 1)}
    assert [moment.begin_ns for moment in found.timeline.moments] == list(range(81))


def test_timeline_of_a_long_recording(tmp_path: Path) -> None:
    events = tuple(
        Event(0, number, number, Operation.SEND, Outcome.OK, 5 + 7 * number, stream=0, partition=0,
              producer=0, number=number)
        for number in range(1000)
    )  # fmt: skip
    found = audit_folder(record(tmp_path / "h", replace(LOST, events=events)), [], Options(None, True))
    assert found.timeline is not None
    assert found.timeline.span_ns == 59
    assert found.timeline.moments[0] == Moment(5, 9, 0)
    assert len(found.timeline.moments) == 119
    assert sum(moment.acknowledged for moment in found.timeline.moments) == 1000
    assert isinstance(found.timeline, Timeline)


def test_no_timeline_unless_it_is_asked_for(tmp_path: Path) -> None:
    assert audit_folder(record(tmp_path / "h", LOST)).timeline is None


# Histories that are not in buckets.


@pytest.mark.parametrize("rows_max", [1000, 6])
@pytest.mark.parametrize("of", [LOST, MIXED], ids=["lost", "mixed"])
def test_loose_files(tmp_path: Path, of: History, rows_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort, "BUCKET_ROWS", rows_max)
    folder = record_loose(tmp_path / "h", of, 3)
    assert audit_json(folder) == expected_json(read_manifest(folder), of.events)
    assert sorted(path.name for path in folder.iterdir()) == ["events", "history.json"]
    assert len(list(read_events(folder))) == len(of.events)


def test_loose_files_are_sorted_by_tasks_as_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort, "BUCKET_ROWS", 6)
    folder = record_loose(tmp_path / "h", MIXED, 3)
    layout = read_layout(folder, read_manifest(folder))
    with sort.in_buckets(layout, Engine(), shared=True) as in_buckets:
        assert in_buckets.buckets == 5
        batches = [in_buckets.read_checked(group) for group in in_buckets.groups]
        events = [event for batch in batches for event in to_events(batch)]
        assert sorted(events, key=key_of) == sorted(MIXED.events, key=key_of)
        copy = in_buckets.folder
        assert copy.parent == layout.folder
    assert not copy.exists()


class Engine:
    """An engine of another kind, that does the same."""

    def map(self, count: int, work: Work) -> list[Any]:
        return Here().map(count, work)

    def join(self, count: int, work: Sending, parts: int, joining: Joining) -> tuple[list[Any], list[Any]]:
        return Here().join(count, work, parts, joining)


def key_of(event: Event) -> tuple[int, int]:
    return event.process, event.index


def test_a_history_that_may_not_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort, "BUCKET_ROWS", 6)
    folder = record_loose(tmp_path / "h", MIXED)
    layout = replace(read_layout(folder, read_manifest(folder)), folder=tmp_path / "none")
    with (
        pytest.raises(EnvironmentFailure, match="cannot write a copy in buckets"),
        sort.in_buckets(layout, Here(), shared=True),
    ):
        pass


# What is wrong with a history.


def truncate(folder: Path) -> None:
    path = bucket_folder(folder, 1) / "part-0000.parquet"
    path.write_bytes(path.read_bytes()[:-100])


def damage(folder: Path) -> None:
    """Breaks the pages of a file, and leaves its footer."""
    path = bucket_folder(folder, 1) / "part-0000.parquet"
    content = bytearray(path.read_bytes())
    content[4:200] = b"\xff" * 196
    path.write_bytes(content)


def drop_bucket(folder: Path) -> None:
    shutil.rmtree(bucket_folder(folder, 2))


def change(field: str, value: int) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        path = bucket_folder(folder, 0) / "part-0000.parquet"
        table = pq.read_table(path)
        values = [value, *table.column(field).to_pylist()[1:]]
        column = pa.array(values, table.schema.field(field).type)
        pq.write_table(table.set_column(table.column_names.index(field), field, column), path)

    return write


def forget_stream(folder: Path) -> None:
    path = folder / "history.json"
    document = json.loads(path.read_text())
    document["streams"] = []
    path.write_text(json.dumps(document))


def drop_event(folder: Path) -> None:
    path = bucket_folder(folder, 1) / "part-0000.parquet"
    pq.write_table(pq.read_table(path)[1:], path)
    forget_count(folder)


def drop_tail(folder: Path) -> None:
    """Leaves out the last events of one process, so that no index is missing."""
    path = bucket_folder(folder, 1) / "part-0000.parquet"
    pq.write_table(pq.read_table(path)[:-2], path)


def double_file(folder: Path) -> None:
    path = bucket_folder(folder, 1) / "part-0000.parquet"
    path.with_name("part-0001.parquet").write_bytes(path.read_bytes())


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (truncate, "bucket=0001/part-0000.parquet: cannot be read to its end"),
        (damage, "bucket=0001/part-0000.parquet: row 0: cannot be read from here"),
        (drop_bucket, "bucket=0002` is missing: history.json has 3 buckets"),
        (change("operation", 15), "part-0000.parquet: row 0: unknown operation 15"),
        (change("outcome", 4), "part-0000.parquet: row 0: unknown outcome 4"),
        (change("group", 9), "part-0000.parquet: row 0: unknown group 9"),
        (forget_stream, "row 0: unknown stream 0"),
        (drop_event, "process `a` has no event with index 2, but one with 3"),
        (drop_tail, "h` has 7 events, and its history.json says 9: events are missing"),
        (double_file, "h` has 13 events, and its history.json says 9: files of another history are in it"),
    ],
)
def test_a_wrong_history_is_never_judged(tmp_path: Path, spoil: Callable[[Path], None], told: str) -> None:
    folder = record(tmp_path / "h", LOST)
    spoil(folder)
    with pytest.raises(ModelError) as error:
        audit_folder(folder)
    assert told in error.value.message
    assert error.value.hint


def test_an_older_history_does_not_say_how_many_events_it_has(tmp_path: Path) -> None:
    """What is cut off it is not seen then: here the reading to the end, which proved the loss."""
    folder = record(tmp_path / "h", LOST)
    forget_count(folder)
    assert audit_folder(folder, [Property.DELIVERED]).judgements[0].counts == {"lost write": 1}
    drop_tail(folder)
    found = audit_folder(folder, [Property.DELIVERED]).judgements[0]
    assert (found.word, found.counts) == (Word.NOT_OBSERVABLE, {})


@pytest.mark.parametrize("complete", [True, False])
def test_a_loose_file_that_is_missing_is_seen(tmp_path: Path, complete: bool) -> None:
    """Of a history whose indices may have gaps, too."""
    of = replace(LOST, manifest=replace(LOST.manifest, complete=complete))
    folder = record_loose(tmp_path / "h", of, 3)
    (folder / "events" / "2.parquet").unlink()
    with pytest.raises(ModelError, match=r"has 6 events, and its history\.json says 9: events are missing"):
        audit_folder(folder)


def test_a_wrong_row_of_a_queue_is_told(tmp_path: Path) -> None:
    """Queues are surveyed before their rows are checked."""
    folder = record(tmp_path / "h", MIXED, 1)
    events = [replace(event, stream=7) if event.stream == 1 else event for event in MIXED.events]
    pq.write_table(table_of(events), bucket_folder(folder, 0) / "part-0000.parquet")
    with pytest.raises(ModelError, match="row 15: unknown stream 7"):
        audit_folder(folder)


def test_what_has_no_stream_says_so(tmp_path: Path) -> None:
    events = tuple(
        replace(event, stream=0, partition=1) if event.operation is Operation.BEGIN else event
        for event in MIXED.events
    )
    with pytest.raises(ModelError, match="BEGIN has stream 0"):
        audit_folder(record(tmp_path / "h", replace(MIXED, events=events)))


def test_a_task_on_a_machine_without_the_history(tmp_path: Path) -> None:
    folder = record(tmp_path / "h", LOST)
    layout = read_layout(folder, read_manifest(folder))
    shutil.rmtree(folder)
    plan = make_plan(layout, list(Property), np.zeros(2, np.bool_), [])
    with pytest.raises(EnvironmentFailure) as error:
        read_bucket(plan, 1)
    assert "bucket=0001/part-0000.parquet` is missing on " in error.value.message
    assert error.value.hint == "put the history on a path that all machines of the cluster share"
    with pytest.raises(EnvironmentFailure, match="is missing on"):
        audit("h", layout, list(Property), Here(), silent)


def test_clocks_that_jump_are_never_held(tmp_path: Path) -> None:
    of = history("aA0 aR bA0 bS0*5")
    found = audit_folder(record(tmp_path / "h", of), [Property.EXCLUSIVE]).judgements[0]
    assert (found.word, found.counts) == (Word.NOT_OBSERVABLE, {})
    assert "a clock jumped" in found.reason
    steady = history("aA0 aR bA0 bS0")
    assert (
        audit_folder(record(tmp_path / "i", steady), [Property.EXCLUSIVE]).judgements[0].word is Word.HELD
    )


def test_the_manifest_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort, "BUCKET_ROWS", 6)
    folder = record_loose(tmp_path / "h", MIXED)
    manifest: Manifest = audit_folder(folder).manifest
    assert manifest.buckets == 0
