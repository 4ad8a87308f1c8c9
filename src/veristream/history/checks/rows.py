"""Rows: some of the events of a history as columns, and how to get back the events of a few of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from veristream.history.events import Event
from veristream.history.manifest import Manifest
from veristream.history.properties import Property
from veristream.history.schema import EVENTS
from veristream.history.store.reader import open_file, to_events

COLUMNS = tuple(name for name in EVENTS.names if name != "error")
"""The columns that rows may have: all but `error`, which no check looks at."""


class Source(Protocol):
    """Where rows come from. It reads the few events that witnesses show; it can be pickled."""

    def read(self, at: NDArray[np.int64]) -> tuple[Event, ...]:
        """Returns the events at these positions, in the order of `at`."""
        ...


@dataclass(frozen=True, slots=True)
class Files:
    """Parquet files of a history; positions count their rows from the first file on."""

    paths: tuple[Path, ...]

    def read(self, at: NDArray[np.int64]) -> tuple[Event, ...]:
        found: dict[int, Event] = {}
        begin = 0
        for path in self.paths:
            file = open_file(path)
            for group in range(file.metadata.num_row_groups):
                end = begin + file.metadata.row_group(group).num_rows
                inside = np.unique(at[(at >= begin) & (at < end)])
                if inside.size:
                    rows = file.read_row_group(group, columns=EVENTS.names).take(pa.array(inside - begin))
                    events = (
                        event
                        for batch in rows.select(EVENTS.names).to_batches()
                        for event in to_events(batch)
                    )
                    found.update(zip(inside.tolist(), events, strict=True))
                begin = end
        return tuple(found[each] for each in at.tolist())


@dataclass(frozen=True, slots=True)
class Told:
    """Events in memory."""

    events: tuple[Event, ...]

    def read(self, at: NDArray[np.int64]) -> tuple[Event, ...]:
        return tuple(self.events[each] for each in at.tolist())


@dataclass(frozen=True, slots=True)
class Rows:
    """Columns of equal length. `at` says where in the source each row is; None: row i is at i."""

    columns: Mapping[str, NDArray[Any]]
    source: Source
    at: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def select(self, which: NDArray[Any]) -> Rows:
        """Returns the rows of a mask, or those with these indices in their order."""
        indices = np.flatnonzero(which) if which.dtype == np.bool_ else which
        at = indices if self.at is None else self.at[indices]
        return Rows({name: column[indices] for name, column in self.columns.items()}, self.source, at)

    def events(self, indices: NDArray[np.int64] | Sequence[int]) -> tuple[Event, ...]:
        """Reads the events of a few rows, with all their fields."""
        chosen = np.asarray(indices, np.int64)
        return self.source.read(chosen if self.at is None else self.at[chosen]) if chosen.size else ()


@dataclass(frozen=True, slots=True)
class Joined:
    """Several rows, one after the other."""

    parts: tuple[Rows, ...]

    def read(self, at: NDArray[np.int64]) -> tuple[Event, ...]:
        ends = np.cumsum([len(part) for part in self.parts])
        which = np.searchsorted(ends, at, side="right")
        found: dict[int, Event] = {}
        for each in np.unique(which).tolist():
            part, inside = self.parts[each], at[which == each]
            events = part.events(inside - (ends[each] - len(part)))
            found.update(zip(inside.tolist(), events, strict=True))
        return tuple(found[each] for each in at.tolist())


_OFTEN_ALIKE = frozenset({"stream", "partition", "group", "transaction", "attempt"})
"""Columns that often have one value in all rows; then they take no memory, and cannot be written to."""


def from_batches(batches: Iterable[pa.RecordBatch], names: Iterable[str], source: Source) -> Rows:
    """Returns all rows of the batches, which are those of the source in its order, with these columns."""
    wanted = tuple(names)
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in wanted}
    for batch in batches:
        for name in wanted if batch.num_rows else ():
            column = batch.column(name).to_numpy()
            alike = name in _OFTEN_ALIKE and bool((column == column[0]).all())
            parts[name].append(np.broadcast_to(column[0], len(column)) if alike else column)
    columns: dict[str, NDArray[Any]] = {}
    for name in wanted:
        pieces = parts.pop(name)  # so that they are freed once they are joined
        if not pieces:
            columns[name] = np.empty(0, EVENTS.field(name).type.to_pandas_dtype())
        elif all(piece.strides == (0,) and piece[0] == pieces[0][0] for piece in pieces):
            columns[name] = np.broadcast_to(pieces[0][0], sum(map(len, pieces)))
        else:
            columns[name] = np.concatenate(pieces)
    return Rows(columns, source)


def from_events(events: Iterable[Event]) -> Rows:
    """Returns events in memory as rows with all columns."""
    told = tuple(events)
    columns = {
        name: np.array(
            [int(getattr(event, name)) for event in told], EVENTS.field(name).type.to_pandas_dtype()
        )
        for name in COLUMNS
    }
    return Rows(columns, Told(told))


def join(parts: Sequence[Rows]) -> Rows:
    """Returns the rows of all parts, one after the other, with the columns of the first one."""
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0].columns}
    return Rows(columns, Joined(tuple(parts)))


_ALWAYS = (
    "process", "index", "operation", "outcome", "time_ns", "stream", "partition", "offset",
    "producer", "number",
)  # fmt: skip

_MORE: Mapping[Property, tuple[str, ...]] = {
    Property.DELIVERED: ("call", "transaction"),
    Property.PROCESSED: ("group", "transaction"),
    Property.ONCE: (),
    Property.ORDER: ("call", "transaction"),
    Property.ONE_OFFSET: (),
    Property.NOTHING_NEW: ("call", "digest"),
    Property.READERS: (),
    Property.ABORTED: ("call", "transaction"),
    Property.WHOLE: ("call", "transaction"),
    Property.FENCED: (),
    Property.EXCLUSIVE: ("group",),
    Property.FORWARD: ("call", "group"),
    Property.BOUNDED: ("call", "group", "attempt"),
    Property.FINAL: ("call", "group"),
}

_OF_QUEUES: Mapping[Property, tuple[str, ...]] = {
    Property.DELIVERED: ("group",),
    Property.ONCE: ("group",),
    Property.ORDER: ("group", "attempt"),
}


def columns_of(asked: Iterable[Property], manifest: Manifest) -> tuple[str, ...]:
    """Returns the columns that the checks of these properties need, in the order of `COLUMNS`."""
    needed = set(_ALWAYS)
    has_queues = any(not stream.offsets for stream in manifest.streams)
    for each in asked:
        needed.update(_MORE[each])
        if has_queues:
            needed.update(_OF_QUEUES.get(each, ()))
    return tuple(name for name in COLUMNS if name in needed)
