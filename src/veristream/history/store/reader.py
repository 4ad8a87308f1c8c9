"""Reading a history strictly: what is damaged or unknown is an error, never a verdict."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from veristream.errors import ModelError
from veristream.history.events import Event, Operation, Outcome
from veristream.history.manifest import Manifest
from veristream.history.schema import EVENTS
from veristream.history.store.bucket import bucket_folder
from veristream.history.store.document import read_manifest
from veristream.history.store.rules import Place, check_nulls, check_rows

__all__ = [
    "bucket_files",
    "open_file",
    "read_batches",
    "read_events",
    "read_manifest",
    "require_all",
    "unreadable",
    "validate",
]

ROWS_AT_ONCE: Final = 65_536
_EXHAUSTED: Final = (errno.ENOMEM, errno.EAGAIN)
_DAMAGED: Final = "copy the history again; if it was damaged where it was recorded, record it again"


def bucket_files(folder: Path, manifest: Manifest) -> list[list[Path]]:
    """Returns the files of each bucket; a bucket that is missing, or one too many, is an error.

    Without buckets, all files are as if they were of one.
    """
    events = folder / "events"
    if not manifest.buckets:
        return [_files_in(events, f"`{events}` has no files, and history.json no buckets")]
    expected = [bucket_folder(folder, bucket) for bucket in range(manifest.buckets)]
    if events.is_dir():
        for found in sorted(events.iterdir()):
            if found not in expected and not found.name.startswith((".", "_")):
                raise ModelError(
                    f"`{found}` belongs to no bucket: history.json has {manifest.buckets}",
                    hint="take it out of the history, or copy the history again",
                )
    has = f"history.json has {manifest.buckets} buckets"
    return [_files_in(each, f"bucket `{each}` is missing: {has}") for each in expected]


def _files_in(folder: Path, missing: str) -> list[Path]:
    found = sorted(
        path
        for path in (folder.iterdir() if folder.is_dir() else ())
        if not path.name.startswith((".", "_"))
    )
    if not found:
        raise ModelError(missing, hint=_DAMAGED)
    for path in found:
        if path.suffix != ".parquet":
            raise ModelError(f"`{path}` is not a Parquet file", hint="take it out of the history")
    return found


def require_all(folder: Path, manifest: Manifest, found: int) -> None:
    """Raises a ModelError unless a history has as many events as its manifest says, if it says it.

    A file that is missing, or that was written again without its last rows, shows in nothing else.
    """
    if manifest.events is not None and found != manifest.events:
        some = "events are missing" if found < manifest.events else "files of another history are in it"
        raise ModelError(
            f"`{folder}` has {found} events, and its history.json says {manifest.events}: {some}",
            hint=_DAMAGED,
        )


def open_file(path: Path) -> pq.ParquetFile:
    """Opens a file of a history; a truncated one, or one with other columns, is an error."""
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(f"{path}: cannot be read to its end", error) from error
    found = {field.name: field.type for field in file.schema_arrow}
    for field in EVENTS:
        if field.name not in found:
            raise ModelError(f"{path}: has no column `{field.name}`", hint=_COLUMNS)
        if found[field.name] != field.type:
            message = f"{path}: column `{field.name}` is {found[field.name]}, not {field.type}"
            raise ModelError(message, hint=_COLUMNS)
    if extra := sorted(set(found) - set(EVENTS.names)):
        raise ModelError(f"{path}: has an unknown column `{extra[0]}`", hint=_COLUMNS)
    return file


_COLUMNS: Final = "the columns must be those of `veristream.history.schema.EVENTS`"


def read_batches(path: Path, manifest: Manifest, bucket: int | None = None) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a file, checked, with the columns of `EVENTS` in their order."""
    file = open_file(path)
    row = 0
    batches = file.iter_batches(ROWS_AT_ONCE, columns=EVENTS.names)
    while True:
        try:
            batch = next(batches, None)
        except (pa.ArrowException, OSError) as error:
            raise unreadable(f"{path}: row {row}: cannot be read from here", error) from error
        if batch is None:
            return
        batch = batch.select(EVENTS.names)
        place = Place(str(path), row, bucket)
        check_nulls(batch, place)
        check_rows(to_columns(batch), manifest, place)
        yield batch
        row += batch.num_rows


def to_columns(batch: pa.RecordBatch) -> dict[str, NDArray[np.int64]]:
    """Returns all columns but `error`, without copying them."""
    return {name: batch.column(name).to_numpy() for name in EVENTS.names if name != "error"}


def to_events(batch: pa.RecordBatch) -> Iterator[Event]:
    """Yields the rows of a checked batch; the columns of `EVENTS` are the fields of `Event`, in order."""
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
    columns["operation"] = [_OPERATIONS[each] for each in columns["operation"]]
    columns["outcome"] = [_OUTCOMES[each] for each in columns["outcome"]]
    yield from map(Event, *columns.values())


_OPERATIONS: Final = tuple(Operation)
_OUTCOMES: Final = tuple(Outcome)


def read_events(folder: Path) -> Iterator[Event]:
    """Yields all events, bucket by bucket, not ordered otherwise; in the end, one too few is an error."""
    found = 0
    manifest = read_manifest(folder)
    for bucket, files in enumerate(bucket_files(folder, manifest)):
        for path in files:
            for batch in read_batches(path, manifest, bucket):
                yield from to_events(batch)
                found += batch.num_rows
    require_all(folder, manifest, found)


def validate(folder: Path) -> int:
    """Reads and checks everything but gaps in `index`; returns the number of events."""
    manifest = read_manifest(folder)
    found: int = sum(
        batch.num_rows
        for bucket, files in enumerate(bucket_files(folder, manifest))
        for path in files
        for batch in read_batches(path, manifest, bucket)
    )
    require_all(folder, manifest, found)
    return found


def unreadable(told: str, error: Exception) -> ModelError:
    """Returns the error of a damaged file; raises MemoryError if the machine lacks what reading takes.

    Arrow says that memory ran out by an exception of its own, or by a thread that could not be started.
    """
    first = (str(error).splitlines() or [type(error).__name__])[0]
    lacks = isinstance(error, MemoryError) or getattr(error, "errno", None) in _EXHAUSTED
    if lacks or "Failed to launch worker thread" in first:
        raise MemoryError(first) from error
    return ModelError(f"{told}: {first}", hint=_DAMAGED)
