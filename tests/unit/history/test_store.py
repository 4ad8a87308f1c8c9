import json
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from veristream.errors import EnvironmentFailure, ModelError
from veristream.history.events import Event, Operation, Outcome
from veristream.history.manifest import Incident, Manifest, Process, Stream
from veristream.history.schema import EVENTS
from veristream.history.store.bucket import bucket_of, buckets_of
from veristream.history.store.reader import bucket_files, read_events, read_manifest, validate
from veristream.history.store.writer import HistoryWriter

MANIFEST = Manifest(
    source="test",
    processes=(Process("p", "h", "read_committed", 0), Process("q")),
    streams=(Stream("log", readers=(0, 1)), Stream("queue", False, None, 5, 10**9)),
    groups=("g",),
    nodes=("n1",),
    workload="w",
    settings={"acks": "1"},
    incidents=(Incident("kill", "n1", 5), Incident("hold", "n1", 5, 9, {"rule": "é"})),
    recorded_at="2026-01-01T00:00:00Z",
)


def send(index: int, partition: int = 0, process: int = 0) -> Event:
    return Event(
        process, index, index, Operation.SEND, Outcome.OK,
        index * 10, index, 0, partition, index, process, index, -7, -1, 4, 2, -1, 0, "é",
    )  # fmt: skip


def record(folder: Path, events: list[Event], buckets: int = 3) -> Path:
    writer = HistoryWriter(folder, buckets)
    writer.append(events)
    writer.close(MANIFEST)
    return folder


def in_order(folder: Path) -> list[Event]:
    return sorted(read_events(folder), key=lambda event: (event.process, event.index))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    close = Event(0, 10, 10, Operation.CLOSE, Outcome.OK)
    events = [send(index, index % 4) for index in range(10)] + [close]
    folder = record(tmp_path / "h", events)
    assert in_order(folder) == events
    assert read_manifest(folder) == replace(MANIFEST, buckets=3, events=11)
    assert validate(folder) == 11
    assert [len(files) for files in bucket_files(folder, read_manifest(folder))] == [1, 1, 1]


def test_columns_are_written_as_events_are(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path, 4)
    count = 200_000
    index = np.arange(count)
    writer.append_columns(
        {
            "process": np.zeros(count, np.int32),
            "index": index,
            "call": index,
            "operation": np.zeros(count, np.int8),
            "outcome": np.ones(count, np.int8),
            "stream": np.zeros(count, np.int32),
            "partition": (index % 5).astype(np.int32),
            "producer": np.zeros(count, np.int32),
            "number": index,
            "error": ["" if each % 2 else "late" for each in range(count)],
        }
    )
    writer.close(MANIFEST)
    read = in_order(tmp_path)
    assert len(read) == count
    assert [event.number for event in read] == list(range(count))
    assert read[123_456] == Event(
        0, 123_456, 123_456, Operation.SEND, Outcome.OK,
        stream=0, partition=1, producer=0, number=123_456, error="late",
    )  # fmt: skip


def test_threads_append_together(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path, 2)

    def work(process: int) -> None:
        for index in range(300):
            writer.append([send(index, index % 3, process)])

    threads = [threading.Thread(target=work, args=(process,)) for process in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close(MANIFEST)
    assert in_order(tmp_path) == [
        send(index, index % 3, process) for process in (0, 1) for index in range(300)
    ]


def test_an_interrupt_leaves_whole_appends(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path, 4)
    appended = 0

    def append_for_ever() -> None:
        nonlocal appended
        while True:
            writer.append([send(appended + each, each) for each in range(8)])
            appended += 8

    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        append_for_ever()
    writer.close(MANIFEST)
    read = in_order(tmp_path)
    assert len(read) in (appended, appended + 8)
    assert [event.index for event in read] == list(range(len(read)))


def test_a_history_that_was_not_closed_is_refused(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path)
    writer.append([send(0)])
    writer.abandon()
    with pytest.raises(ModelError, match="recording was killed before its end"):
        list(read_events(tmp_path))
    with pytest.raises(ModelError, match="already contains a history"):
        HistoryWriter(tmp_path)
    with pytest.raises(ValueError, match="closed"):
        writer.append([send(1)])


def test_a_folder_that_cannot_be_written_is_the_machine_s_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFailure, match="cannot create"):
        HistoryWriter(tmp_path / "file" / "h")


def test_wrong_columns_are_refused(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path)
    with pytest.raises(ValueError, match="no such columns: \\['offsett'\\]"):
        writer.append_columns({"offsett": np.zeros(1)})
    with pytest.raises(ValueError, match="columns are missing: \\['index', 'call'"):
        writer.append_columns({"process": np.zeros(1)})
    names = ("process", "index", "call", "operation", "outcome")
    columns = {name: np.zeros(2, np.int64) for name in names}
    with pytest.raises(ValueError, match="column offset has 1 rows, and process 2"):
        writer.append_columns({**columns, "offset": np.zeros(1)})
    writer.abandon()


def test_buckets_are_spread_and_equal_in_both_forms() -> None:
    pairs = [(stream, partition) for stream in range(-1, 4) for partition in range(-1, 9)]
    stream, partition = (np.array(column) for column in zip(*pairs, strict=True))
    assert [bucket_of(*pair, 8) for pair in pairs] == buckets_of(stream, partition, 8).tolist()
    assert sorted(bucket_of(0, partition, 8) for partition in range(8)) == list(range(8))


def test_not_a_history(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is not a history: it has no history"):
        read_manifest(tmp_path)


def damage_cut(folder: Path) -> None:
    path = next((folder / "events" / "bucket=0000").iterdir())
    path.write_bytes(path.read_bytes()[:-40])


def damage_middle(folder: Path) -> None:
    path = next((folder / "events" / "bucket=0000").iterdir())
    content = bytearray(path.read_bytes())
    content[4:600] = bytes(596)
    path.write_bytes(content)


def damage_tail(folder: Path) -> None:
    path = next((folder / "events" / "bucket=0002").iterdir())
    pq.write_table(pq.read_table(path)[:-1], path)


def damage_empty(folder: Path) -> None:
    next((folder / "events" / "bucket=0001").iterdir()).write_bytes(b"")


def drop_bucket(folder: Path) -> None:
    next((folder / "events" / "bucket=0001").iterdir()).unlink()


def drop_events(folder: Path) -> None:
    (folder / "events").rename(folder / "elsewhere")


def add_bucket(folder: Path) -> None:
    (folder / "events" / "bucket=0003").mkdir()


def add_file(folder: Path) -> None:
    (folder / "events" / "bucket=0001" / "notes.txt").write_text("")


def exchange_buckets(folder: Path) -> None:
    events = folder / "events"
    (events / "bucket=0000").rename(events / "x")
    (events / "bucket=0001").rename(events / "bucket=0000")
    (events / "x").rename(events / "bucket=0001")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_cut, "bucket=0000/part-0000.parquet: cannot be read to its end"),
        (damage_middle, "bucket=0000/part-0000.parquet: row 0: cannot be read from here"),
        (damage_tail, "h` has 8 events, and its history.json says 9: events are missing"),
        (damage_empty, "bucket=0001/part-0000.parquet: cannot be read to its end"),
        (drop_bucket, "bucket=0001` is missing: history.json has 3 buckets"),
        (drop_events, "bucket=0000` is missing"),
        (add_bucket, "bucket=0003` belongs to no bucket: history.json has 3"),
        (add_file, "notes.txt` is not a Parquet file"),
        (exchange_buckets, "row 0: partition 1 of stream 0 is not in bucket 0"),
    ],
)
def test_damaged_histories_are_errors(tmp_path: Path, damage: Callable[[Path], None], message: str) -> None:
    folder = record(tmp_path / "h", [send(index, index % 3) for index in range(9)])
    damage(folder)
    for read in (validate, lambda of: list(read_events(of))):
        with pytest.raises(ModelError) as caught:
            read(folder)
        assert message in caught.value.message
        assert caught.value.hint


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"operation": 15}, "unknown operation 15"),
        ({"operation": -1}, "unknown operation -1"),
        ({"outcome": 4}, "unknown outcome 4"),
        ({"stream": 2}, "unknown stream 2"),
        ({"stream": -5}, "unknown stream -5"),
        ({"process": 2}, "unknown process 2"),
        ({"process": -1}, "unknown process -1"),
        ({"group": 1}, "unknown group 1"),
        ({"node": 1}, "unknown node 1"),
        ({"index": -1}, "index is -1"),
        ({"offset": -2}, "offset is -2"),
        ({"partition": -2}, "partition is -2"),
        ({"producer": -1}, "SEND has no producer"),
        ({"stream": -1}, "SEND has no stream"),
        ({"operation": 1, "offset": -1}, "RECEIVE from a log has no offset"),
        ({"operation": 1, "outcome": 0}, "RECEIVE has outcome 0"),
        ({"operation": 4}, "COMMIT has no group"),
        ({"operation": 13, "number": -1}, "READ_TO_END from a log has no number"),
        ({"error": None}, "error is null"),
        ({"offset": None}, "offset is null"),
    ],
)
def test_wrong_rows_are_errors_with_file_and_row(
    tmp_path: Path, row: dict[str, int | None], message: str
) -> None:
    folder = record(tmp_path / "h", [], 1)
    rows = [{name: getattr(send(index), name) for name in EVENTS.names} for index in range(3)]
    rows[1] |= row
    nullable = pa.schema([field.with_nullable(True) for field in EVENTS])
    path = folder / "events" / "bucket=0000" / "part-0000.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=nullable), path)
    with pytest.raises(ModelError) as caught:
        validate(folder)
    assert caught.value.message == f"{path}: row 1: {message}"
    assert caught.value.hint


def test_other_columns_are_errors(tmp_path: Path) -> None:
    folder = record(tmp_path / "h", [], 1)
    path = folder / "events" / "bucket=0000" / "part-0000.parquet"
    table = EVENTS.empty_table()
    for changed, message in [
        (table.drop_columns(["offset"]), "has no column `offset`"),
        (table.append_column("more", pa.array([], pa.int8())), "has an unknown column `more`"),
        (table.set_column(0, "process", pa.array([], pa.int64())), "column `process` is int64, not int32"),
    ]:
        pq.write_table(changed, path)
        with pytest.raises(ModelError) as caught:
            validate(folder)
        assert caught.value.message == f"{path}: {message}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "`version` is 2, and this Veristream reads 1"),
        ({"buckets": True}, "`buckets` is not a natural number"),
        ({"events": -1}, "`events` is not a natural number"),
        ({"processes": {}}, "`processes` is not a list"),
        ({"processes": [{}]}, "`processes.0` has no field `name`"),
        ({"processes": [{"name": 3}]}, "`processes.0.name` is not a string"),
        ({"processes": [{"name": "a", "isolation": "x"}]}, "`processes.0.isolation` is `x`"),
        (
            {"processes": [{"name": "a", "member_of": 1}]},
            "`processes.0.member_of` is 1, and there are only 1",
        ),
        ({"streams": [{"name": "s", "readers": [2]}]}, "`streams.0.readers.0` is 2, and there are only 2"),
        ({"streams": ["s"]}, "`streams.0` is not an object"),
        ({"complete": "yes"}, "`complete` is not true or false"),
        ({"settings": {"a": 1}}, "`settings.a` is not a string"),
        ({"settings": []}, "`settings` is not an object"),
        (
            {"incidents": [{"kind": "k", "target": "t", "begin_ns": 0, "details": {"a": 1}}]},
            "`incidents.0.details.a` is not a string",
        ),
        ({"compleet": True}, "has an unknown field `compleet`"),
    ],
)
def test_wrong_manifests_are_errors(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = record(tmp_path, []) / "history.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ModelError) as caught:
        read_manifest(tmp_path)
    assert caught.value.message == f"{path}: {message}"
    assert caught.value.hint


def test_a_manifest_that_is_cut_off_is_an_error_with_its_place(tmp_path: Path) -> None:
    path = record(tmp_path, []) / "history.json"
    path.write_text(path.read_text()[:30])
    with pytest.raises(ModelError, match="not JSON") as caught:
        read_manifest(tmp_path)
    assert caught.value.span.place.startswith(str(path))
    path.write_bytes(b"\xff{")
    with pytest.raises(ModelError, match="is not UTF-8"):
        read_manifest(tmp_path)
