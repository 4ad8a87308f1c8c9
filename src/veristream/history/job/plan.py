"""What all tasks of an audit share: the plan, which is small, and the context, which each process reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from veristream.history.checks.context import Context
from veristream.history.checks.rows import COLUMNS, Files, Rows, from_batches, join
from veristream.history.checks.transactions.ledger import Ledger, read_ledger
from veristream.history.events import NONE, Operation
from veristream.history.job.layout import Group, Layout
from veristream.history.manifest import Manifest
from veristream.history.properties import Property
from veristream.history.store.reader import to_columns

SPANS: Final = 120
"""How many moments a timeline has at most."""

_OF_SPREAD: Final = (Operation.RECEIVE, Operation.ACKNOWLEDGE, Operation.REJECT)
_OF_CONTROL: Final = (
    "process", "index", "call", "operation", "outcome", "time_ns", "stream", "partition", "group",
    "transaction", "epoch",
)  # fmt: skip
"""The columns that events without a stream can have."""

_SURVEYED: Final = ["operation", "stream", "partition", "group"]


@dataclass(frozen=True, slots=True)
class Survey:
    """What a bucket has that others must know.

    `shared` are the row groups, by their numbers in the layout, with events that all buckets need;
    `subscriptions` pairs of a queue and a group with a `RECEIVE` or `READ_TO_END`; `queues` those with
    events that are counted as in flight.
    """

    shared: tuple[int, ...]
    subscriptions: frozenset[tuple[int, int]]
    queues: frozenset[int]


@dataclass(frozen=True, slots=True)
class Spans:
    """Spans of a recording, of equal length."""

    begin_ns: int
    span_ns: int
    count: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What is known of a history before its buckets are checked.

    `token` differs between audits: a process that runs tasks of several keeps one context.
    """

    layout: Layout
    asked: tuple[Property, ...]
    jumped: tuple[bool, ...]
    shared: tuple[int, ...]
    subscriptions: Mapping[int, tuple[int, ...]]
    spread: frozenset[int]
    spans: Spans | None = None
    token: str = field(default_factory=lambda: uuid4().hex)


def has_queues(manifest: Manifest) -> bool:
    """Says whether a history has queues: only then must buckets be surveyed."""
    return not all(stream.offsets for stream in manifest.streams)


def survey(layout: Layout, bucket: int) -> Survey:
    """Reads four columns of a bucket."""
    queues = [number for number, stream in enumerate(layout.manifest.streams) if not stream.offsets]
    shared: list[int] = []
    subscriptions: set[tuple[int, int]] = set()
    flying: set[int] = set()
    for number, group in enumerate(layout.groups):
        if group.bucket != bucket:
            continue
        batch = layout.read(group, _SURVEYED)
        if any(column.null_count for column in batch.columns):
            layout.read_checked(group)  # says which row is wrong
        operation, stream, partition, subscription = (column.to_numpy() for column in batch.columns)
        if _is_shared(operation, stream, partition).any():
            shared.append(number)
        is_queue = np.isin(stream, queues)
        reads = is_queue & np.isin(operation, [Operation.RECEIVE, Operation.READ_TO_END])
        pairs = np.stack([stream[reads], subscription[reads]], axis=1)
        subscriptions.update(map(tuple, np.unique(pairs, axis=0).tolist()))
        flying.update(np.unique(stream[is_queue & np.isin(operation, _OF_SPREAD)]).tolist())
    return Survey(tuple(shared), frozenset(subscriptions), frozenset(flying))


def assume(layout: Layout) -> Survey:
    """Returns the survey of a history without queues, by its footers."""
    shared = [
        number
        for number, group in enumerate(layout.groups)
        if group.partition is None or group.partition[0] == NONE
    ]
    return Survey(tuple(shared), frozenset(), frozenset())


def make_plan(
    layout: Layout,
    asked: Sequence[Property],
    jumped: NDArray[np.bool_],
    surveys: Sequence[Survey],
    spans: Spans | None = None,
) -> Plan:
    """Puts together what was learnt of each bucket."""
    groups: dict[int, set[int]] = {}
    for stream, group in (pair for each in surveys for pair in each.subscriptions):
        groups.setdefault(stream, set()).add(group)
    seen: set[int] = set()
    spread: set[int] = set()
    for each in surveys:
        spread |= seen & each.queues
        seen |= each.queues
    return Plan(
        layout,
        tuple(asked),
        tuple(jumped.tolist()),
        tuple(sorted({number for each in surveys for number in each.shared})),
        {stream: tuple(sorted(found)) for stream, found in sorted(groups.items())},
        frozenset(spread),
        spans,
    )


def find_spans(layout: Layout) -> Spans | None:
    """Returns the spans of a recording, by the footers of its files; None if they do not say."""
    ranges = [group.time_ns for group in layout.groups if group.rows]
    known = [each for each in ranges if each is not None]
    if not known or len(known) < len(ranges):
        return None
    begin, end = min(low for low, _ in known), max(high for _, high in known)
    length = -(-(end - begin + 1) // SPANS)
    return Spans(begin, length, -(-(end - begin + 1) // length))


_CONTEXTS: dict[str, tuple[Context, Ledger]] = {}


def context_of(plan: Plan) -> tuple[Context, Ledger]:
    """Returns the context of an audit, read once in each process."""
    if plan.token not in _CONTEXTS:
        _CONTEXTS.clear()
        context = _read_context(plan)
        _CONTEXTS[plan.token] = context, read_ledger(context)
    return _CONTEXTS[plan.token]


def forget(plan: Plan) -> None:
    """Frees the context of an audit in this process."""
    _CONTEXTS.pop(plan.token, None)


def _read_context(plan: Plan) -> Context:
    layout = plan.layout
    shared = _join(_shared_rows(layout, layout.groups[number]) for number in plan.shared)
    operation, stream = shared["operation"], shared["stream"]
    control = np.flatnonzero(stream == NONE)
    control = control[np.lexsort((shared["index"][control], shared["process"][control]))]
    of_control = Rows({name: shared[name] for name in _OF_CONTROL}, shared.source, shared.at)
    strays = (stream != NONE) & (operation == Operation.SEND) & (shared["partition"] == NONE)
    return Context(
        layout.manifest,
        np.array(plan.jumped, np.bool_),
        of_control.select(control),
        shared.select(strays),
        shared.select(operation == Operation.READY),
        plan.subscriptions,
        plan.spread,
    )


def _shared_rows(layout: Layout, group: Group) -> Rows:
    batch = layout.read_checked(group)
    columns = to_columns(batch)
    rows = np.flatnonzero(_is_shared(*(columns[name] for name in ("operation", "stream", "partition"))))
    chosen = {name: columns[name][rows] for name in COLUMNS}
    return Rows(chosen, layout.source(group.bucket), rows + group.at)


def _is_shared(operation: NDArray[Any], stream: NDArray[Any], partition: NDArray[Any]) -> NDArray[np.bool_]:
    strays = (operation == Operation.SEND) & (partition == NONE)
    return np.asarray((stream == NONE) | strays | (operation == Operation.READY))


def _join(parts: Iterable[Rows]) -> Rows:
    found = [part for part in parts if len(part)]
    return join(found) if found else from_batches([], COLUMNS, _NOTHING)


_NOTHING: Final = Files(())
