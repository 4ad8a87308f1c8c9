"""What a history consists of, by the footers of its files: row groups and what they can contain."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from veristream.errors import EnvironmentFailure
from veristream.history.checks.rows import Files
from veristream.history.manifest import Manifest
from veristream.history.schema import EVENTS
from veristream.history.store.reader import bucket_files, open_file, require_all, to_columns, unreadable
from veristream.history.store.rules import Place, check_nulls, check_rows

Range = tuple[int, int]
"""The lowest and the highest value."""


@dataclass(frozen=True, slots=True)
class Group:
    """A row group: where its rows are, and the ranges of some columns; None if the file does not say.

    `first` is the number of its first row in the file, `at` that in all files of the bucket.
    """

    bucket: int
    path: Path
    number: int
    first: int
    at: int
    rows: int
    index: Range | None
    time_ns: Range | None
    partition: Range | None
    transaction: Range | None


@dataclass(frozen=True, slots=True)
class Layout:
    """A history in buckets: its folder, its manifest, the files of each bucket and their row groups."""

    folder: Path
    manifest: Manifest
    files: tuple[tuple[Path, ...], ...]
    groups: tuple[Group, ...]

    @property
    def rows(self) -> int:
        """The number of events."""
        return sum(group.rows for group in self.groups)

    @property
    def buckets(self) -> int:
        """The number of buckets."""
        return len(self.files)

    def groups_of(self, bucket: int) -> Iterator[Group]:
        """Yields the row groups of a bucket in the order of their rows."""
        return (group for group in self.groups if group.bucket == bucket)

    def source(self, bucket: int) -> Files:
        """Returns where the rows of a bucket come from."""
        return Files(self.files[bucket])

    def require(self, path: Path) -> Path:
        """Returns the path of a file; a task may run on another machine, which does not have it."""
        if not path.is_file():
            raise EnvironmentFailure(
                f"`{path}` is missing on {socket.gethostname()}",
                hint="put the history on a path that all machines of the cluster share",
            )
        return path

    def open(self, path: Path) -> pq.ParquetFile:
        """Opens a file in a task."""
        return open_file(self.require(path))

    def read(self, group: Group, names: list[str], file: pq.ParquetFile | None = None) -> pa.RecordBatch:
        """Reads some columns of a row group as they are in the file; its rows are not checked."""
        try:
            opened = file or self.open(group.path)
            table = opened.read_row_group(group.number, columns=names, use_threads=False).select(names)
            batches = table.combine_chunks().to_batches()
        except (pa.ArrowException, OSError) as error:
            where = f"{group.path}: row {group.first}: cannot be read from here"
            raise unreadable(where, error) from error
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)

    def read_checked(self, group: Group) -> pa.RecordBatch:
        """Reads a row group with all columns; a row that breaks a rule is an error."""
        batch = self.read(group, EVENTS.names)
        place = Place(str(group.path), group.first, group.bucket)
        check_nulls(batch, place)
        check_rows(to_columns(batch), self.manifest, place)
        return batch


def read_layout(folder: Path, manifest: Manifest) -> Layout:
    """Reads the footers of all files; one that is missing or damaged, or has too few rows, is an error."""
    folder = folder.resolve()
    files = tuple(tuple(each) for each in bucket_files(folder, manifest))
    groups: list[Group] = []
    for bucket, paths in enumerate(files):
        at = 0
        for path in paths:
            first = 0
            for group in _groups(path, bucket, at):
                groups.append(group)
                first += group.rows
            at += first
    layout = Layout(folder, manifest, files, tuple(groups))
    require_all(folder, manifest, layout.rows)
    return layout


def _groups(path: Path, bucket: int, at: int) -> Iterator[Group]:
    metadata = open_file(path).metadata
    names = [metadata.schema.column(number).name for number in range(metadata.num_columns)]
    place = {name: number for number, name in enumerate(names)}
    first = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        ranges = (
            _range(group.column(place[name])) for name in ("index", "time_ns", "partition", "transaction")
        )
        yield Group(bucket, path, number, first, at + first, group.num_rows, *ranges)
        first += group.num_rows


def _range(column: Any) -> Range | None:
    statistics = column.statistics
    if statistics is None or not statistics.has_min_max:
        return None
    return int(statistics.min), int(statistics.max)
