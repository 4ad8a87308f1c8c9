"""Runs the fast checker as a job would, on events in memory."""

import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from veristream.history.checks.bucket import check_bucket, check_spread
from veristream.history.checks.context import Context
from veristream.history.checks.parts import Part, settle
from veristream.history.checks.rows import Rows, columns_of, from_events
from veristream.history.checks.transactions.bucket import (
    DECIDED,
    Telling,
    Wanted,
    check_transactions,
    tell_transactions,
)
from veristream.history.checks.transactions.cycles import judge_edges
from veristream.history.checks.transactions.fenced import check_fenced
from veristream.history.checks.transactions.ledger import read_ledger
from veristream.history.checks.transactions.whole import judge_readings
from veristream.history.events import NONE, Event, Operation
from veristream.history.job.whole import Ends, find_ends, judge_whole
from veristream.history.manifest import Manifest
from veristream.history.properties import Property
from veristream.history.reasons import Evidence, conclude, merge
from veristream.history.store.bucket import bucket_of
from veristream.history.verdicts import Judgement

ASKED = tuple(Property)
OF_BUCKETS = tuple(each for each in Property if each not in (*DECIDED, Property.FENCED))
"""Properties that `check_bucket` decides."""

_OF_SUBSCRIPTIONS = (Operation.RECEIVE, Operation.READ_TO_END)
_IN_FLIGHT = (Operation.RECEIVE, Operation.ACKNOWLEDGE, Operation.REJECT)


def context_of(manifest: Manifest, events: Sequence[Event], buckets: int) -> Context:
    """Returns the context of a history."""
    ordered = sorted(events, key=lambda event: (event.process, event.index))
    jumped = np.zeros(len(manifest.processes), np.bool_)
    for one, other in pairwise(ordered):
        jumped[one.process] |= one.process == other.process and other.time_ns < one.time_ns
    subscriptions: dict[int, set[int]] = {}
    places: dict[int, set[int]] = {}
    for event in events:
        if event.stream != NONE and not manifest.streams[event.stream].offsets:
            if event.operation in _OF_SUBSCRIPTIONS:
                subscriptions.setdefault(event.stream, set()).add(event.group)
            if event.operation in _IN_FLIGHT:
                bucket = bucket_of(event.stream, event.partition, buckets)
                places.setdefault(event.stream, set()).add(bucket)
    return Context(
        manifest,
        jumped,
        control=from_events(event for event in ordered if event.stream == NONE),
        strays=from_events(
            event for event in ordered if event.operation is Operation.SEND and event.partition == NONE
        ),
        ready=from_events(event for event in ordered if event.operation is Operation.READY),
        subscriptions={stream: tuple(sorted(groups)) for stream, groups in subscriptions.items()},
        spread=frozenset(stream for stream, found in places.items() if len(found) > 1),
    )


def check(
    manifest: Manifest,
    events: Sequence[Event],
    asked: Sequence[Property] = ASKED,
    buckets: int = 1,
    seed: int | None = 0,
) -> tuple[Judgement, ...]:
    """Checks a history whose events come in an order of chance, or as they are."""
    shuffled = list(events)
    if seed is not None:
        random.Random(seed).shuffle(shuffled)
    context = context_of(manifest, shuffled, buckets)
    columns = columns_of(asked, manifest)
    split = []
    for bucket in range(buckets):
        rows = from_events(
            event for event in shuffled if bucket_of(event.stream, event.partition, buckets) == bucket
        )
        split.append(Rows({name: rows[name] for name in columns}, rows.source))
    parts: dict[Property, list[Part]] = {each: [] for each in asked}
    for rows in split:
        for each, part in check_bucket(rows, context, [one for one in asked if one in OF_BUCKETS]).items():
            parts[each].append(part)
    if Property.BOUNDED in asked:
        for stream in context.spread:
            rows = from_events(
                event for event in shuffled if event.stream == stream and event.operation in _IN_FLIGHT
            )
            parts[Property.BOUNDED].append(check_spread(rows, context))
    if Property.FENCED in asked:
        parts[Property.FENCED].append(Part(check_fenced(context)))
    for each, evidence in _check_transactions(split, context, asked).items():
        parts[each].append(Part(evidence))
    return tuple(conclude(each, manifest, settle(each, parts[each])) for each in asked)


def _check_transactions(
    buckets: Sequence[Rows], context: Context, asked: Sequence[Property]
) -> dict[Property, Evidence]:
    """Checks transactions in each bucket, and joins what they show."""
    ledger = read_ledger(context)
    sent = [check_transactions(rows, context, ledger, asked) for rows in buckets]
    found = {
        each: merge([one.evidence[each] for one in sent if each in one.evidence])
        for each in DECIDED
        if each in asked
    }
    readings = [one.readings for one in sent if one.readings is not None]
    edges = [one.edges for one in sent if one.edges is not None]
    if readings:

        def explain(wanted: Wanted) -> tuple[list[Telling], Ends]:
            tellings = [tell_transactions(rows, context, ledger, wanted) for rows in buckets]
            return tellings, find_ends(wanted, ledger)

        joined = (judge_readings(readings), judge_edges(edges))
        found[Property.WHOLE] = judge_whole(context.manifest, found[Property.WHOLE], joined, explain)
    return found
