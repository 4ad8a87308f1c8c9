"""Audits of histories on Spark say what they say in one process, byte for byte."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.cluster import Standalone, veristream
from tests.unit.history.job.recorded import audit_json, expected_json, forget_count, record, record_loose
from veristream.errors import EnvironmentFailure, ModelError
from veristream.history.job import sort
from veristream.history.job.audit import audit
from veristream.history.job.cluster import OnSpark
from veristream.history.job.layout import Group, Layout, read_layout
from veristream.history.job.run import Options, audit_folder, silent
from veristream.history.properties import Property
from veristream.history.store.bucket import bucket_folder
from veristream.history.store.reader import read_manifest
from veristream_testing.histories.history import History
from veristream_testing.histories.noisy import noisy_history
from veristream_testing.histories.notation import LOG, QUEUE, history
from veristream_testing.histories.one_partition import OnePartition, write
from veristream_testing.histories.simulated import random_history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

ON_SPARK = Options("local[2]", with_timeline=True)

CYCLE = history(
    "a[1 b[1 a>1@0 b>1/1@0 a<b1/1@0 b<a1@0 a]1 b]1 a[2 a>2@1 a>3/1@1 a]2 c<a2@1 cE0-2 cE0-2/1 "
    "c>4.1/0 c>5.1/1 ar1.1 a<c4.1/0 a<c5.1/1",
    LOG,
    QUEUE,
)
"""With a cycle, a torn transaction, and a queue in several buckets."""

OF_WRITING = history("a[1 b[1 a>1@0 b>1@1 a>2@2 a]1 b]1 cE0-3")
"""With a cycle that is legal."""


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(
    "of",
    [CYCLE, OF_WRITING, noisy_history(1), random_history(1)],
    ids=["cycle", "writing", "noisy", "random"],
)
def test_as_the_plain_checker(of: History, tmp_path: Path) -> None:
    folder = record(tmp_path / "h", of, 3)
    expected = expected_json(read_manifest(folder), of.events)
    assert audit_json(folder, options=ON_SPARK) == expected
    assert audit_json(folder) == expected


@pytest.mark.usefixtures("session")
def test_the_timeline_is_the_same(tmp_path: Path) -> None:
    folder = record(tmp_path / "h", CYCLE)
    here = audit_folder(folder, options=Options(with_timeline=True))
    assert here.timeline is not None
    assert sum(moment.received for moment in here.timeline.moments) == 5
    assert audit_folder(folder, options=ON_SPARK) == here


@pytest.mark.usefixtures("session")
def test_loose_files_are_exchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort, "BUCKET_ROWS", 10)
    folder = record_loose(tmp_path / "h", CYCLE, 3)
    assert audit_json(folder, options=ON_SPARK) == expected_json(read_manifest(folder), CYCLE.events)
    assert sorted(path.name for path in folder.iterdir()) == ["events", "history.json"]


@pytest.mark.usefixtures("session")
def test_what_is_wrong_is_told_as_here(tmp_path: Path) -> None:
    folder = record(tmp_path / "h", CYCLE, 2)
    path = bucket_folder(folder, 1) / "part-0000.parquet"
    pq.write_table(pq.read_table(path)[1:], path)
    forget_count(folder)
    told = []
    for options in (Options(), ON_SPARK):
        with pytest.raises(ModelError) as error:
            audit_folder(folder, options=options)
        told.append((error.value.message, error.value.hint))
    assert told[0] == told[1]
    assert "has no event with index" in told[0][0]


def test_a_machine_without_the_history_is_told(session: SparkSession, tmp_path: Path) -> None:
    folder = record(tmp_path / "h", CYCLE)
    layout = read_layout(folder, read_manifest(folder))
    shutil.rmtree(folder)
    with pytest.raises(EnvironmentFailure, match=r"part-0000\.parquet` is missing on") as error:
        audit("h", layout, list(Property), OnSpark(session), silent)
    assert error.value.hint == "put the history on a path that all machines of the cluster share"


class Starved(Layout):
    """A history whose files cannot be read for lack of memory."""

    def read(self, group: Group, names: list[str], file: pq.ParquetFile | None = None) -> pa.RecordBatch:
        raise MemoryError


def test_a_task_with_too_little_memory_says_so(session: SparkSession, tmp_path: Path) -> None:
    folder = record(tmp_path / "h", CYCLE, 1)
    layout = read_layout(folder, read_manifest(folder))
    starved = Starved(layout.folder, layout.manifest, layout.files, layout.groups)
    with pytest.raises(EnvironmentFailure, match=f"has {len(CYCLE.events)} events, which take") as error:
        audit("h", starved, list(Property), OnSpark(session), silent)
    assert error.value.message.startswith("too little memory on ")


@pytest.mark.usefixtures("session")
def test_one_partition_with_millions_of_events(tmp_path: Path) -> None:
    of = OnePartition(833_333)
    write(tmp_path / "h", of)
    found = audit_folder(tmp_path / "h", options=Options("local[2]"))
    assert found.events == of.events
    counts = {kind: count for each in found.judgements for kind, count in each.counts.items()}
    assert counts == {each.kind: 1 for each in of.anomalies()}
    assert {one.anomaly for each in found.judgements for one in each.witnesses} == of.anomalies()


def test_a_cluster_writes_the_same(cluster: Standalone, tmp_path: Path) -> None:
    folder = record(tmp_path / "h", CYCLE, 4)
    here = veristream("audit", str(folder), "--json")
    shared = veristream(
        "audit", str(folder), "--json", "--master", cluster.master, environment=cluster.environment
    )
    assert (here.code, shared.code) == (1, 1), shared.told
    assert shared.output == here.output
