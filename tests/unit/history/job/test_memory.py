"""Too little memory is a failure of the machine, wherever it shows: not damage, not a bug, no verdict."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.history.job.recorded import record, record_loose
from veristream.errors import EnvironmentFailure
from veristream.history.checks.transactions import whole
from veristream.history.job import index, plan, sort, tasks
from veristream.history.job.run import audit_folder
from veristream_testing.histories.notation import LOG, QUEUE, history

TORN = history("a[1 a>1@0 a>2/1@0 a]1 b<a1@0 bE0-1 bE0-1/1 b<a3.1", LOG, QUEUE)


def fail_in_numpy(*_: Any, **__: Any) -> NoReturn:
    raise MemoryError("Unable to allocate 8.00 GiB for an array")


def fail_in_arrow(*_: Any, **__: Any) -> NoReturn:
    raise pa.ArrowMemoryError("malloc of size 64 failed")


def fail_to_start_a_thread(*_: Any, **__: Any) -> NoReturn:
    raise pa.ArrowException("Unknown error: Failed to launch worker thread: not available")


def fail_to_start_one_later(*_: Any, **__: Any) -> Iterator[NoReturn]:
    yield fail_to_start_a_thread()


def fail_in_a_call() -> NoReturn:
    raise OSError(errno.ENOMEM, "Cannot allocate memory")


def fail_in_a_call_later(*_: Any, **__: Any) -> Iterator[NoReturn]:
    yield fail_in_a_call()


@pytest.mark.parametrize(
    ("place", "name", "fail"),
    [
        (pq.ParquetFile, "read_row_group", fail_in_arrow),
        (pq.ParquetFile, "read_row_group", fail_to_start_a_thread),
        (pq.ParquetFile, "iter_batches", fail_in_arrow),
        (pq.ParquetFile, "iter_batches", fail_to_start_one_later),
        (pq.ParquetFile, "iter_batches", fail_in_a_call_later),
        (index, "scan", fail_in_numpy),
        (plan, "to_columns", fail_in_numpy),
        (tasks, "survey", fail_in_numpy),
        (tasks, "from_batches", fail_in_numpy),
        (tasks, "check_bucket", fail_in_numpy),
        (tasks, "judge_readings", fail_in_numpy),
        (tasks, "judge_edges", fail_in_numpy),
        (tasks, "tell_transactions", fail_in_numpy),
        (whole.Readings, "select", fail_in_numpy),
    ],
)
def test_it_is_told_with_the_largest_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Any, name: str, fail: Callable[..., Any]
) -> None:
    folder = record(tmp_path / "h", TORN, 2)
    audit_folder(folder)
    monkeypatch.setattr(place, name, fail)
    with pytest.raises(EnvironmentFailure, match="the largest bucket has 9 events, which take about 0 MB"):
        audit_folder(folder)


def test_it_is_told_while_a_copy_in_buckets_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sort, "BUCKET_ROWS", 6)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = record_loose(tmp_path / "h", TORN)
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", fail_in_arrow)
    with pytest.raises(EnvironmentFailure, match="too little memory on"):
        audit_folder(folder)
    assert [each.name for each in tmp_path.iterdir()] == ["h"]
