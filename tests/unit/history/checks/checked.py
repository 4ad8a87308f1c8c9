"""Runs the fast checker as a job would, on events in memory."""

import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from veristream.history.checks.bucket import check_bucket, check_spread
from veristream.history.checks.context import Context
from veristream.history.checks.parts import Part, settle
from veristream.history.checks.rows import Rows, columns_of, from_events
from veristream.history.events import NONE, Event, Operation
from veristream.history.manifest import Manifest
from veristream.history.properties import Property
from veristream.history.reasons import conclude
from veristream.history.store.bucket import bucket_of
from veristream.history.verdicts import Judgement

ASKED = tuple(each for each in Property if each not in (Property.ABORTED, Property.WHOLE, Property.FENCED))
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
    parts: dict[Property, list[Part]] = {each: [] for each in asked}
    for bucket in range(buckets):
        rows = from_events(
            event for event in shuffled if bucket_of(event.stream, event.partition, buckets) == bucket
        )
        only = Rows({name: rows[name] for name in columns}, rows.source)
        for each, part in check_bucket(only, context, asked).items():
            parts[each].append(part)
    if Property.BOUNDED in asked:
        for stream in context.spread:
            rows = from_events(
                event for event in shuffled if event.stream == stream and event.operation in _IN_FLIGHT
            )
            parts[Property.BOUNDED].append(check_spread(rows, context))
    return tuple(conclude(each, manifest, settle(each, parts[each])) for each in asked)
