"""What each row of a history must have: the first one that has not is an error with its file and row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from veristream.errors import ModelError
from veristream.history.events import NONE, Operation, Outcome
from veristream.history.manifest import Manifest
from veristream.history.store.bucket import buckets_of

_AGAIN: Final = "record or import the history again"

_ENDED_ONLY: Final = (
    Operation.RECEIVE,
    Operation.ASSIGN,
    Operation.REVOKE,
    Operation.SEEK,
    Operation.READY,
    Operation.CLOSE,
)
"""Operations that have no effect on a broker that could fail: their only outcome is `OK`."""

_WITHOUT_STREAM: Final = (
    Operation.OPEN,
    Operation.BEGIN,
    Operation.END_COMMIT,
    Operation.END_ABORT,
    Operation.CLOSE,
)
"""Operations that are of a process, whatever it reads and writes."""

NEEDS: Final[Mapping[Operation, tuple[str, ...]]] = {
    Operation.SEND: ("stream", "producer", "number"),
    Operation.RECEIVE: ("stream", "partition"),
    Operation.ACKNOWLEDGE: ("stream", "partition"),
    Operation.REJECT: ("stream", "partition"),
    Operation.COMMIT: ("stream", "partition", "group", "offset"),
    Operation.OPEN: ("group",),
    Operation.BEGIN: ("transaction",),
    Operation.END_COMMIT: ("transaction",),
    Operation.END_ABORT: ("transaction",),
    Operation.ASSIGN: ("stream", "partition", "group"),
    Operation.REVOKE: ("stream", "partition", "group"),
    Operation.SEEK: ("stream", "partition"),
    Operation.READY: ("stream", "number"),
    Operation.READ_TO_END: ("stream", "partition"),
    Operation.CLOSE: (),
}
"""The columns of which an event needs a value (not -1), whatever its outcome is.

In a log, `RECEIVE` also needs an `offset`, and an OK of `READ_TO_END` `number` and `offset`.
"""

Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where rows come from: the file, the first one's number, and the bucket that they must be in."""

    file: str
    row: int = 0
    bucket: int | None = None


def check_rows(columns: Columns, manifest: Manifest, place: Place) -> None:
    """Raises a ModelError for the first row that breaks a rule; `columns` are all but `error`."""
    for wrong, message, hint in _rules(columns, manifest, place):
        rows = np.flatnonzero(wrong)
        if rows.size:
            row = int(rows[0])
            values = {name: int(column[row]) for name, column in columns.items()}
            raise ModelError(f"{place.file}: row {place.row + row}: {message.format(**values)}", hint=hint)


def check_nulls(batch: pa.RecordBatch, place: Place) -> None:
    """Raises a ModelError if a value is missing: an absent number is -1."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if column.null_count:
            row = place.row + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise ModelError(
                f"{place.file}: row {row}: {name} is null",
                hint="write -1 where an event has no value",
            )


Rule = tuple[NDArray[np.bool_], str, str]


def _rules(columns: Columns, manifest: Manifest, place: Place) -> list[Rule]:
    operation, outcome = columns["operation"], columns["outcome"]
    known = (operation >= 0) & (operation < len(Operation))
    rules: list[Rule] = [
        (~known, "unknown operation {operation}", f"Veristream knows 0 to {len(Operation) - 1}"),
        (
            (outcome < 0) | (outcome >= len(Outcome)),
            "unknown outcome {outcome}",
            f"Veristream knows 0 to {len(Outcome) - 1}",
        ),
    ]
    rules += _named(columns, manifest)
    for name in ("index", "call"):
        rules.append((columns[name] < 0, f"{name} is {{{name}}}", f"count each process's {name} from 0"))
    for name in ("partition", "offset", "producer", "number", "transaction", "epoch", "attempt"):
        rules.append(
            (columns[name] < NONE, f"{name} is {{{name}}}", "write -1 where an event has no value")
        )
    rules += _fields(columns, manifest)
    if place.bucket is not None and manifest.buckets:
        bucket = buckets_of(columns["stream"], columns["partition"], manifest.buckets)
        message = f"partition {{partition}} of stream {{stream}} is not in bucket {place.bucket}"
        rules.append((bucket != place.bucket, message, _AGAIN))
    return rules


def _named(columns: Columns, manifest: Manifest) -> list[Rule]:
    rules: list[Rule] = []
    lists = (
        ("process", "processes", len(manifest.processes), 0),
        ("stream", "streams", len(manifest.streams), NONE),
        ("group", "groups", len(manifest.groups), NONE),
        ("node", "nodes", len(manifest.nodes), NONE),
    )
    for name, plural, count, lowest in lists:
        wrong = (columns[name] < lowest) | (columns[name] >= count)
        named = f"it names {count}, counted from 0" if count else "it names none"
        rules.append(
            (wrong, f"unknown {name} {{{name}}}", f"list it in `{plural}` of history.json: {named}"),
        )
    return rules


def _fields(columns: Columns, manifest: Manifest) -> list[Rule]:
    operation, outcome = columns["operation"], columns["outcome"]
    logs = np.array([each.offsets for each in manifest.streams] + [False])
    is_log = logs[columns["stream"].clip(NONE, len(manifest.streams))]  # False without a known stream
    rules: list[Rule] = []
    for each in Operation:
        of_it = operation == each.value
        if not of_it.any():
            continue
        if each in _ENDED_ONLY:
            wrong = of_it & (outcome != Outcome.OK)
            rules.append(
                (wrong, f"{each.name} has outcome {{outcome}}", f"its only outcome is {Outcome.OK.value}")
            )
        for name in NEEDS[each]:
            rules.append((of_it & (columns[name] == NONE), f"{each.name} has no {name}", _AGAIN))
        if each in _WITHOUT_STREAM:
            for name in ("stream", "partition"):
                wrong = of_it & (columns[name] != NONE)
                rules.append((wrong, f"{each.name} has {name} {{{name}}}", "write -1: it is of no stream"))
        in_log: tuple[str, ...] = ()
        if each is Operation.RECEIVE:
            in_log = ("offset",)
        elif each is Operation.READ_TO_END:
            in_log = ("number", "offset")
            of_it = of_it & (outcome == Outcome.OK)
        for name in in_log:
            wrong = of_it & is_log & (columns[name] == NONE)
            rules.append((wrong, f"{each.name} from a log has no {name}", _AGAIN))
    return rules
