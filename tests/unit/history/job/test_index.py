"""The index of every process: gaps, repetitions and jumped clocks, wherever they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.history.job.recorded import record, table_of
from veristream.errors import ModelError
from veristream.history.events import Event, Operation, Outcome
from veristream.history.job import index
from veristream.history.job.layout import Layout, read_layout
from veristream.history.manifest import Manifest, Process, Stream
from veristream.history.reasons import INDEX_HINT
from veristream.history.store.bucket import bucket_folder
from veristream.history.store.reader import read_manifest
from veristream_testing.histories.history import History

EVENTS = 90
NAMES = ("a", "b", "c")
MANIFEST = Manifest("test", tuple(Process(name, "h") for name in NAMES), (Stream("log"),))


def events_of(process: int, count: int = EVENTS) -> list[Event]:
    return [
        Event(
            process, number, number, Operation.RECEIVE, Outcome.OK, 10 * number,
            stream=0, partition=number % 4, offset=number, producer=0, number=number,
        )
        for number in range(count)
    ]  # fmt: skip


HISTORY = History(MANIFEST, (*events_of(0), *events_of(2, 40)))


def look(folder: Path, rows_max: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Looks at a history in pieces of about so many events."""
    layout = read_layout(folder, read_manifest(folder))
    pieces = index.cut(layout.groups, rows_max)
    return index.merge(layout.manifest, [index.scan(layout, piece) for piece in pieces])


@pytest.mark.parametrize("rows_max", [1000, 50, 7])
@pytest.mark.parametrize("buckets", [1, 3])
def test_regular(tmp_path: Path, rows_max: int, buckets: int) -> None:
    folder = record(tmp_path / "h", HISTORY, buckets, backwards=True)
    assert look(folder, rows_max).tolist() == [False, False, False]


@pytest.mark.parametrize("rows_max", [1000, 50, 7])
@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ((0, 0), "process `a` has no event with index 0, but one with 1"),
        ((0, 41), "process `a` has no event with index 41, but one with 42"),
        ((2, 38), "process `c` has no event with index 38, but one with 39"),
    ],
)
def test_gaps(tmp_path: Path, rows_max: int, missing: tuple[int, int], told: str) -> None:
    left = tuple(event for event in HISTORY.events if (event.process, event.index) != missing)
    folder = record(tmp_path / "h", replace(HISTORY, events=left))
    with pytest.raises(ModelError) as error:
        look(folder, rows_max)
    assert (error.value.message, error.value.hint) == (told, INDEX_HINT)


@pytest.mark.parametrize("rows_max", [1000, 50, 7])
@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("number", [0, 33, 89])
def test_repetitions(tmp_path: Path, rows_max: int, complete: bool, number: int) -> None:
    doubled = replace(HISTORY.events[number], partition=3)
    events = (*HISTORY.events, doubled)
    folder = record(tmp_path / "h", History(replace(MANIFEST, complete=complete), events))
    with pytest.raises(ModelError, match=f"process `a` has two events with index {number}"):
        look(folder, rows_max)


@pytest.mark.parametrize("rows_max", [1000, 7])
def test_a_repetition_does_not_hide_behind_a_gap(tmp_path: Path, rows_max: int) -> None:
    events = tuple(replace(event, index=50) if event.index == 49 else event for event in events_of(0))
    folder = record(tmp_path / "h", replace(HISTORY, events=events))
    with pytest.raises(ModelError, match="process `a` has no event with index 49, but one with 50"):
        look(folder, rows_max)


@pytest.mark.parametrize("rows_max", [1000, 50, 7])
def test_gaps_are_permitted_in_what_is_not_complete(tmp_path: Path, rows_max: int) -> None:
    some = tuple(event for event in HISTORY.events if event.index % 7 and event.index not in range(20, 35))
    folder = record(tmp_path / "h", History(replace(MANIFEST, complete=False), some))
    assert look(folder, rows_max).tolist() == [False, False, False]


@pytest.mark.parametrize("rows_max", [1000, 50, 7])
@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("at", [1, 30, 39])
def test_jumped_clocks(tmp_path: Path, rows_max: int, complete: bool, at: int) -> None:
    events = tuple(
        replace(event, time_ns=event.time_ns - 11) if (event.process, event.index) == (2, at) else event
        for event in HISTORY.events
        if complete or (event.process, event.index) != (0, 5)
    )
    folder = record(tmp_path / "h", History(replace(MANIFEST, complete=complete), events))
    assert look(folder, rows_max).tolist() == [False, False, True]


def test_equal_times_are_no_jump(tmp_path: Path) -> None:
    events = tuple(replace(event, time_ns=7) for event in HISTORY.events)
    assert not look(record(tmp_path / "h", replace(HISTORY, events=events)), 20).any()


def test_pieces_cover_every_index_once(tmp_path: Path) -> None:
    layout = layout_of(tmp_path)
    pieces = index.cut(layout.groups, 20)
    assert pieces[0][0] == 0
    assert pieces[-1][1] == (1 << 63) - 1
    assert [end for _, end in pieces[:-1]] == [begin for begin, _ in pieces[1:]]
    assert len(pieces) == 7  # 130 events
    seen = [index.scan(layout, piece) for piece in pieces]
    assert sum(int((each.last - each.first + 1).sum()) for each in seen) == len(HISTORY.events)


def test_a_file_without_statistics(tmp_path: Path) -> None:
    folder = record(tmp_path / "h", HISTORY, 1)
    path = bucket_folder(folder, 0) / "part-0000.parquet"
    table = pq.read_table(path)
    pq.write_table(table, path, write_statistics=False)
    layout = read_layout(folder, read_manifest(folder))
    assert {(group.index, group.partition) for group in layout.groups} == {(None, None)}
    assert look(folder, 20).tolist() == [False, False, False]


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("process", 3, "row 4: unknown process 3"),
        ("process", -1, "row 4: unknown process -1"),
        ("index", -2, "row 4: index is -2"),
    ],
)
def test_impossible_values_are_told_with_their_row(
    tmp_path: Path, column: str, value: int, told: str
) -> None:
    folder = record(tmp_path / "h", HISTORY, 1)
    events = [*HISTORY.events]
    events[4] = replace(events[4], **{column: value})
    pq.write_table(table_of(events), bucket_folder(folder, 0) / "part-0000.parquet")
    with pytest.raises(ModelError, match=told):
        look(folder, 20)


def test_a_missing_value_is_told_with_its_row(tmp_path: Path) -> None:
    folder = record(tmp_path / "h", HISTORY, 1)
    path = bucket_folder(folder, 0) / "part-0000.parquet"
    table = pq.read_table(path)
    times = table.column("time_ns").to_pylist()
    times[9] = None
    table = table.set_column(5, "time_ns", pa.array(times, pa.int64()))
    pq.write_table(table, path)
    with pytest.raises(ModelError, match="row 9: time_ns is null"):
        look(folder, 20)


def layout_of(tmp_path: Path) -> Layout:
    folder = record(tmp_path / "h", HISTORY)
    return read_layout(folder, read_manifest(folder))
