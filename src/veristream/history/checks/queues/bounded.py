"""`in flight is bounded`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from veristream.history.checks.context import Context
from veristream.history.checks.queues.flights import (
    ASKED,
    ENDED,
    OVERRUNS,
    READY,
    RECEIVED,
    RESULTS,
    SHOWN,
    Ends,
    Flights,
    Held,
    Overruns,
    follow,
)
from veristream.history.checks.rows import Rows, join
from veristream.history.checks.table.calls import begins
from veristream.history.checks.table.codes import encode_all
from veristream.history.events import NONE, Operation, Outcome
from veristream.history.reasons import Evidence
from veristream.history.verdicts import Anomaly, Witness
from veristream.history.witnesses import WITNESSES, make_witness

_OVERRUN, _ATTEMPTS = "overrun", "too many attempts"
COLUMNS = (
    "process", "index", "call", "operation", "outcome", "time_ns", "stream", "partition",
    "producer", "number", "group", "attempt",
)  # fmt: skip
"""The columns that the check needs."""


def find_overruns(rows: Rows, context: Context, streams: list[int]) -> Evidence:
    """Finds receives above the limit of their process, or above the maximum of attempts; `rows` have all
    events of these queues, or more."""
    chosen = np.isin(rows["stream"], streams) & (rows["partition"] != NONE)
    told = Rows({name: rows[name] for name in COLUMNS}, rows.source, rows.at).select(
        chosen & np.isin(rows["operation"], (Operation.RECEIVE, Operation.ACKNOWLEDGE, Operation.REJECT))
    )
    told = told.select(_counted(told))
    ready = context.ready.select(np.isin(context.ready["stream"], streams))
    told = join([told, ready])
    order = np.lexsort((told["index"], told["process"], told["group"], told["stream"]))
    told = told.select(order)
    if not len(told):
        return Evidence()
    overruns = Overruns(
        np.zeros(RESULTS, np.int64),
        np.zeros(1, np.bool_),
        np.full(WITNESSES, NONE, np.int64),
        np.full(WITNESSES * SHOWN, NONE, np.int64),
    )
    flights = _flights(told, context)
    items = int(flights.item.max(initial=0)) + 1
    held = Held(
        np.zeros(len(told), np.bool_),
        *(np.full(size, NONE, np.int64) for size in (len(told), items, items)),
    )
    follow(flights, held, _ends(context), overruns)
    counts, witnesses = _attempts(told, context)
    if context.manifest.complete:
        counts[_OVERRUN] = int(overruns.counts[OVERRUNS])
        witnesses += _witnesses(told, context, overruns)
    return Evidence(
        asked=int(overruns.counts[ASKED]),
        uncompared=bool(overruns.uncompared[0]),
        counts=counts,
        witnesses=tuple(witnesses),
    )


def _counted(rows: Rows) -> NDArray[np.bool_]:
    """Returns all but those ends of calls that acknowledge or reject whose beginning counts."""
    found = np.ones(len(rows), np.bool_)
    for operation in (Operation.ACKNOWLEDGE, Operation.REJECT):
        ends = np.flatnonzero((rows["operation"] == operation) & (rows["outcome"] != Outcome.INVOKE))
        found[ends] = rows["outcome"][begins(rows, operation, ends)] != Outcome.INVOKE
    return found


def _flights(told: Rows, context: Context) -> Flights:
    streams = context.manifest.streams
    lifetimes = np.array([NONE if each.redelivery_ns is None else each.redelivery_ns for each in streams])
    limited = np.array([each.attempts_max is not None for each in streams])
    stream, process, operation = told["stream"], told["process"], told["operation"]
    kind = np.where(operation == Operation.RECEIVE, RECEIVED, ENDED)
    kind = np.where(operation == Operation.READY, READY, kind)
    holder, _ = encode_all(stream, told["group"], process)
    known = told["producer"] != NONE
    number = np.where(known, told["number"], NONE)  # of unknown producers, all receipts are one item
    item, _ = encode_all(holder, told["partition"], told["producer"], number)
    lifetime, jumped = lifetimes[stream].astype(np.int64), context.jumped[process]
    return Flights(
        kind.astype(np.int8),
        holder,
        process,
        told["index"],
        told["time_ns"],
        told["number"],
        item,
        known,
        np.where(jumped, NONE, lifetime),
        limited[stream],
        ~jumped | (lifetime == NONE),
    )


def _ends(context: Context) -> Ends:
    control = context.control
    rows = np.flatnonzero(np.isin(control["operation"], (Operation.OPEN, Operation.CLOSE)))
    processes = np.arange(len(context.manifest.processes))
    return Ends(control["index"][rows], np.searchsorted(control["process"][rows], processes, side="right"))


def _anomaly(told: Rows, kind: str, at: int) -> Anomaly:
    stream, group, process, index = (
        int(told[name][at]) for name in ("stream", "group", "process", "index")
    )
    return Anomaly(kind, stream=stream, group=group, process=process, index=index)


def _attempts(told: Rows, context: Context) -> tuple[dict[str, int], list[Witness]]:
    highest = np.iinfo(np.int64).max
    allowed = np.array(
        [highest if each.attempts_max is None else each.attempts_max for each in context.manifest.streams]
    )
    above = (told["operation"] == Operation.RECEIVE) & (told["attempt"] > allowed[told["stream"]])
    found = np.flatnonzero(above)
    witnesses = [
        make_witness(_anomaly(told, _ATTEMPTS, at), told.events([at]), context.manifest)
        for at in found[:WITNESSES].tolist()
    ]
    return {_ATTEMPTS: len(found)}, witnesses


def _witnesses(told: Rows, context: Context, overruns: Overruns) -> list[Witness]:
    shown = overruns.shown.reshape(WITNESSES, SHOWN)
    return [
        make_witness(_anomaly(told, _OVERRUN, at), told.events(each[each >= 0]), context.manifest)
        for at, each in zip(overruns.position.tolist(), shown, strict=True)
        if at >= 0
    ]
