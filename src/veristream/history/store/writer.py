"""Writing a history: events go into buckets as they come, and the manifest comes last.

A thread of its own writes, so that an interrupt (Ctrl-C reaches the main thread only) never leaves half
of what was appended, and recorders do not wait for the disk. A history that was not closed has no
manifest, and is refused by readers.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from veristream.errors import EnvironmentFailure, ModelError
from veristream.history.events import Event
from veristream.history.manifest import Manifest
from veristream.history.schema import EVENTS
from veristream.history.store.bucket import bucket_folder, buckets_of
from veristream.history.store.document import MANIFEST_NAME, write_manifest

Column = NDArray[Any] | Sequence[str]

ROWS_IN_GROUP: Final = 65_536
"""Rows of a bucket that are written at once."""

ROWS_BUFFERED: Final = 1_048_576
"""Rows that all buckets together keep in memory at most, besides what `QUEUED` holds."""

QUEUED: Final = 16
"""How many appended pieces may wait for the writing thread; whoever appends more waits."""

ROWS_IN_PIECE: Final = 65_536
"""Longer appends are cut into such pieces."""

_NAMES: Final = tuple(EVENTS.names)
_REQUIRED: Final = ("process", "index", "call", "operation", "outcome")
_ZERO: Final = ("time_ns", "wall_us", "digest")
_DICTIONARY: Final = [
    "process", "operation", "outcome", "stream", "partition",
    "group", "epoch", "attempt", "node", "error",
]  # fmt: skip


class HistoryWriter:
    """Writes a history into an empty or new folder; any thread may append."""

    def __init__(self, folder: Path, buckets: int = 8) -> None:
        if not 1 <= buckets <= 9999:
            raise ModelError(f"a history cannot have {buckets} buckets", hint="use 1 to 9999")
        if (folder / MANIFEST_NAME).exists() or (folder / "events").exists():
            raise ModelError(
                f"`{folder}` already contains a history", hint="name another folder, or remove it"
            )
        self.folder = folder
        self.buckets = buckets
        self._files = _Files(folder, buckets)
        self._queue: queue.Queue[pa.Table | None] = queue.Queue(QUEUED)
        self._failure: Exception | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._write, name="history-writer", daemon=True)
        self._thread.start()

    def append(self, events: Iterable[Event]) -> None:
        """Adds events, in any order; returns before they are on disk."""
        rows = list(map(attrgetter(*_NAMES), events))
        if rows:
            columns = zip(*rows, strict=True)
            arrays = [pa.array(each, field.type) for each, field in zip(columns, EVENTS, strict=True)]
            self._put(pa.Table.from_arrays(arrays, schema=EVENTS))

    def append_columns(self, columns: Mapping[str, Column]) -> None:
        """Adds a column of each name in `EVENTS`; those that are left out have no value in any row.

        Copies no column that has the type of the schema, so the caller must not change them afterwards.
        """
        if unknown := sorted(set(columns) - set(_NAMES)):
            raise ValueError(f"no such columns: {unknown}")
        if missing := [name for name in _REQUIRED if name not in columns]:
            raise ValueError(f"columns are missing: {missing}")
        rows = len(columns["process"])
        arrays = [_column(field, columns.get(field.name), rows) for field in EVENTS]
        self._put(pa.Table.from_arrays(arrays, schema=EVENTS))

    def close(self, manifest: Manifest) -> Manifest:
        """Writes what is left, then the manifest with the numbers of buckets and events; returns it."""
        self._stop()
        counted = replace(manifest, buckets=self.buckets, events=self._files.written)
        write_manifest(self.folder, counted)
        return counted

    def abandon(self) -> None:
        """Stops without a manifest: what was written is no history."""
        with suppress(EnvironmentFailure):
            self._stop()

    def _stop(self) -> None:
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        self._thread.join()
        self._raise()

    def _put(self, table: pa.Table) -> None:
        self._raise()
        if self._closed:
            raise ValueError("the history is closed")
        for begin in range(0, table.num_rows, ROWS_IN_PIECE):
            self._queue.put(table.slice(begin, ROWS_IN_PIECE))

    def _raise(self) -> None:
        if isinstance(self._failure, (OSError, pa.ArrowException)):
            raise EnvironmentFailure(
                f"cannot write the history `{self.folder}`: {self._failure}",
                hint="free space on the disk, or name another folder",
            ) from self._failure
        if self._failure is not None:
            raise self._failure

    def _write(self) -> None:
        while (table := self._queue.get()) is not None:
            self._attempt(lambda piece=table: self._files.add(piece))
        self._attempt(self._files.close)

    def _attempt(self, step: Any) -> None:
        """Runs a step unless one has failed; the queue is emptied anyway, so that nobody waits for ever."""
        if self._failure is None:
            try:
                step()
            except Exception as failure:  # noqa: BLE001  # raised again where somebody appends or closes
                self._failure = failure


class _Files:
    """A Parquet file for each bucket, and the rows that wait for their row group."""

    def __init__(self, folder: Path, buckets: int) -> None:
        self.written = 0
        self._writers: list[pq.ParquetWriter] = []
        self._waiting: list[list[pa.Table]] = [[] for _ in range(buckets)]
        self._rows = [0] * buckets
        try:
            for bucket in range(buckets):
                path = bucket_folder(folder, bucket)
                path.mkdir(parents=True)
                writer = pq.ParquetWriter(
                    path / "part-0000.parquet", EVENTS, compression="snappy", use_dictionary=_DICTIONARY
                )
                self._writers.append(writer)
        except OSError as error:
            raise EnvironmentFailure(
                f"cannot create the history `{folder}`: {error}", hint="name a folder that you may write to"
            ) from error

    def add(self, table: pa.Table) -> None:
        """Splits the rows by bucket, and writes each group that is full."""
        stream, partition = (table.column(name).to_numpy() for name in ("stream", "partition"))
        bucket = buckets_of(stream, partition, len(self._rows))
        if bucket[0] == bucket[-1] and (bucket == bucket[0]).all():
            self._add(int(bucket[0]), table)
        else:
            order = np.argsort(bucket, kind="stable")
            table = table.take(pa.array(order))
            ends = np.searchsorted(bucket[order], np.arange(len(self._rows) + 1))
            for each in range(len(self._rows)):
                if ends[each] < ends[each + 1]:
                    self._add(each, table.slice(ends[each], ends[each + 1] - ends[each]))
        while sum(self._rows) > ROWS_BUFFERED:
            self._flush(max(range(len(self._rows)), key=self._rows.__getitem__))

    def close(self) -> None:
        """Writes what waits and ends every file; a bucket without events has a file without rows."""
        for bucket, writer in enumerate(self._writers):
            self._flush(bucket)
            writer.close()

    def _add(self, bucket: int, table: pa.Table) -> None:
        self._waiting[bucket].append(table)
        self._rows[bucket] += table.num_rows
        if self._rows[bucket] >= ROWS_IN_GROUP:
            self._flush(bucket)

    def _flush(self, bucket: int) -> None:
        if self._rows[bucket]:
            self._writers[bucket].write_table(pa.concat_tables(self._waiting[bucket]), self._rows[bucket])
            self.written += self._rows[bucket]
            self._waiting[bucket], self._rows[bucket] = [], 0


def _column(field: pa.Field, values: Column | None, rows: int) -> pa.Array:
    if values is None:
        filler: object = "" if field.name == "error" else 0 if field.name in _ZERO else -1
        return pa.repeat(pa.scalar(filler, field.type), rows)
    if len(values) != rows:
        raise ValueError(f"column {field.name} has {len(values)} rows, and process {rows}")
    return pa.array(values, field.type)
