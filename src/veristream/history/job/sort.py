"""Histories that are not in buckets: a temporary copy that is, by one exchange of all events."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from veristream.errors import EnvironmentFailure
from veristream.history.job.engine import RESULT, Engine, Here
from veristream.history.job.layout import Layout, read_layout
from veristream.history.schema import EVENTS
from veristream.history.store.bucket import bucket_folder, buckets_of
from veristream.history.store.writer import HistoryWriter

BUCKET_ROWS: Final = 1_048_576
"""About how many events a bucket of the copy has; a history of fewer is one bucket as it is."""

_BUCKETS_MAX: Final = 9999
_ROWS_IN_GROUP: Final = 65_536


@contextmanager
def in_buckets(layout: Layout, engine: Engine, shared: bool) -> Iterator[Layout]:
    """Yields the history in buckets; a copy is removed in the end.

    The copy is in the folder of the history if machines must share it, else in that for temporary files.
    """
    if layout.manifest.buckets or layout.rows <= BUCKET_ROWS:
        yield layout
        return
    buckets = min(-(-layout.rows // BUCKET_ROWS), _BUCKETS_MAX)
    with _folder(layout.folder if shared else None) as folder:
        if isinstance(engine, Here):
            _copy(layout, folder, buckets)
        else:
            for bucket in range(buckets):
                bucket_folder(folder, bucket).mkdir(parents=True)
            sorting = Sorting(layout, folder, buckets)
            engine.join(len(layout.groups), sorting.split, buckets, sorting.write)
        yield read_layout(folder, replace(layout.manifest, buckets=buckets))


@contextmanager
def _folder(within: Path | None) -> Iterator[Path]:
    try:
        folder = Path(tempfile.mkdtemp(prefix=".buckets-" if within else "veristream-", dir=within))
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot write a copy in buckets: {error}", "make the folder of the history writable"
        ) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy(layout: Layout, folder: Path, buckets: int) -> None:
    """Writes the copy on this machine, with little memory."""
    writer = HistoryWriter(folder, buckets)
    try:
        for group in layout.groups:
            batch = layout.read_checked(group)
            writer.append_columns({name: batch.column(name) for name in EVENTS.names})
    except BaseException:
        writer.abandon()
        raise
    writer.close(layout.manifest)


@dataclass(frozen=True, slots=True)
class Sorting:
    """The tasks that write the copy: of each row group, and of each bucket."""

    layout: Layout
    folder: Path
    buckets: int

    def split(self, number: int) -> Iterator[tuple[int, Any]]:
        """Sends the rows of a row group to their buckets."""
        batch = self.layout.read_checked(self.layout.groups[number])
        stream, partition = (batch.column(name).to_numpy() for name in ("stream", "partition"))
        bucket = buckets_of(stream, partition, self.buckets)
        for each in np.unique(bucket).tolist():
            yield each, batch.take(pa.array(np.flatnonzero(bucket == each)))
        yield RESULT, None

    def write(self, bucket: int, batches: list[pa.RecordBatch]) -> None:
        """Writes a bucket."""
        path = bucket_folder(self.folder, bucket) / "part-0000.parquet"
        unfinished = path.with_name(f".{uuid4().hex}.parquet")  # a task may run twice
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            rows = (pa.record_batch(batch.columns, schema=EVENTS) for batch in batches)
            pq.write_table(pa.Table.from_batches(rows, EVENTS), unfinished, _ROWS_IN_GROUP)
            unfinished.replace(path)
        except OSError as error:
            raise EnvironmentFailure(
                f"cannot write `{path}`: {error}",
                "put the history on a path that all machines of the cluster share and may write to",
            ) from error
