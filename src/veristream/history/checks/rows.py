"""Rows: some of the events of a history as columns, and how to get back the events of a few of them.

Buckets tell many more events than an audit shows in the end. So those of files are only sketched, from the
columns that are in memory; `complete` reads the rest of those that remain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from veristream.history.events import NONE, Event, Operation, Outcome
from veristream.history.manifest import Manifest
from veristream.history.properties import Property
from veristream.history.reasons import Evidence
from veristream.history.schema import EVENTS
from veristream.history.store.reader import open_file, to_events

COLUMNS = tuple(name for name in EVENTS.names if name != "error")
"""The columns that rows may have: all but `error`, which no check looks at."""


Columns = Mapping[str, NDArray[Any]]


class Source(Protocol):
    """Where rows come from. It tells the few events that witnesses show; it can be pickled."""

    def tell(self, at: NDArray[np.int64], known: Columns) -> tuple[Event, ...]:
        """Returns the events at these positions, in the order of `at`; `known` are columns of them."""
        ...


@dataclass(frozen=True, slots=True)
class Files:
    """Parquet files of a history; positions count their rows from the first file on."""

    paths: tuple[Path, ...]

    def tell(self, at: NDArray[np.int64], known: Columns) -> tuple[Event, ...]:
        names = tuple(known)
        rows = zip(*(known[name].tolist() for name in names), strict=True)
        return tuple(
            _sketch(dict(zip(names, row, strict=True)), self, place)
            for row, place in zip(rows, at.tolist(), strict=True)
        )

    def read(self, at: NDArray[np.int64]) -> tuple[Event, ...]:
        """Returns the events at these positions, with all their fields."""
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
class Sketch(Event):
    """An event of which some fields have been read; all of them are at this position of the files."""

    files: Files = Files(())
    at: int = NONE


_REQUIRED: Mapping[str, int] = {"process": NONE, "index": NONE, "call": NONE, "operation": 0, "outcome": 0}


def _sketch(known: dict[str, Any], files: Files, at: int) -> Sketch:
    fields = {**_REQUIRED, **known}
    fields["operation"] = Operation(fields["operation"])
    fields["outcome"] = Outcome(fields["outcome"])
    return Sketch(**fields, files=files, at=at)


def complete(evidence: Mapping[Property, Evidence]) -> dict[Property, Evidence]:
    """Reads all fields of the events of the witnesses; each row group that has some is read once."""
    wanted: dict[Files, set[int]] = {}
    for each in evidence.values():
        for event in (event for witness in each.witnesses for event in witness.events):
            if isinstance(event, Sketch):
                wanted.setdefault(event.files, set()).add(event.at)
    read: dict[tuple[Files, int], Event] = {}
    for files, places in wanted.items():
        at = sorted(places)
        events = files.read(np.array(at, np.int64))
        read.update(zip(((files, place) for place in at), events, strict=True))

    def whole(event: Event) -> Event:
        return read[event.files, event.at] if isinstance(event, Sketch) else event

    return {
        asked: replace(
            each,
            witnesses=tuple(
                replace(witness, events=tuple(dict.fromkeys(map(whole, witness.events))))
                for witness in each.witnesses
            ),
        )
        for asked, each in evidence.items()
    }


@dataclass(frozen=True, slots=True)
class Told:
    """Events in memory."""

    events: tuple[Event, ...]

    def tell(self, at: NDArray[np.int64], known: Columns) -> tuple[Event, ...]:
        return tuple(self.events[each] for each in at.tolist())


@dataclass(frozen=True, slots=True)
class Rows:
    """Columns of equal length. `at` says where in the source each row is; None: row i is at i."""

    columns: Columns
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
        """Returns the events of a few rows; those of files have the fields of which there are columns."""
        chosen = np.asarray(indices, np.int64)
        known = {name: column[chosen] for name, column in self.columns.items()}
        return self.source.tell(chosen if self.at is None else self.at[chosen], known)


@dataclass(frozen=True, slots=True)
class Joined:
    """Several rows, one after the other."""

    parts: tuple[Rows, ...]

    def tell(self, at: NDArray[np.int64], known: Columns) -> tuple[Event, ...]:
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
        pa.default_memory_pool().release_unused()  # what was read of the column before
        pieces = parts.pop(name)  # so that they are freed once they are joined
        if not pieces:
            columns[name] = np.empty(0, EVENTS.field(name).type.to_pandas_dtype())
        elif all(piece.strides == (0,) and piece[0] == pieces[0][0] for piece in pieces):
            columns[name] = np.broadcast_to(pieces[0][0], sum(map(len, pieces)))
        else:
            columns[name] = np.concatenate(pieces)
        del pieces
    pa.default_memory_pool().release_unused()
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
    Property.HANGING: ("call", "transaction"),
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
