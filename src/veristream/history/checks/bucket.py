"""The check of a bucket: all events of some partitions, decided for every property that is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from veristream.history.checks.context import Context
from veristream.history.checks.logs.exclusive import find_overlaps
from veristream.history.checks.logs.forward import find_moves_back
from veristream.history.checks.logs.offsets import find_shared_offsets
from veristream.history.checks.logs.polls import find_broken_polls
from veristream.history.checks.logs.processed import find_unprocessed
from veristream.history.checks.logs.sends import find_swapped_sends
from veristream.history.checks.messages.delivered import find_lost
from veristream.history.checks.messages.once import find_duplicates
from veristream.history.checks.messages.origin import find_unknown
from veristream.history.checks.messages.readers import find_leaks
from veristream.history.checks.parts import Part
from veristream.history.checks.queues.bounded import find_overruns
from veristream.history.checks.queues.final import find_zombie_deliveries
from veristream.history.checks.queues.turns import find_older_messages
from veristream.history.checks.rows import Rows
from veristream.history.checks.table.places import count_events
from veristream.history.checks.table.strays import unseen
from veristream.history.checks.table.table import Table, build_table
from veristream.history.events import NONE, Operation
from veristream.history.properties import Property
from veristream.history.reasons import Evidence, looks_at, merge


def check_bucket(rows: Rows, context: Context, asked: Sequence[Property]) -> dict[Property, Part]:
    """Returns what the rows of a bucket, in any order, show of each property; `settle` puts together what
    all buckets show.

    `in flight is bounded` is not decided here for the queues of `context.spread`: see `check_spread`.
    """
    counts = count_events(rows, len(context.manifest.streams))
    table = build_table(rows, context, Property.NOTHING_NEW in asked) if len(rows) else None
    found: dict[Property, Part] = {}
    for each in asked:
        part = _check(each, rows, table) if table is not None else Part()
        if each is Property.DELIVERED:
            part = replace(part, unseen=unseen(rows, context))
        operations = _looked_at(each, context, counts)
        found[each] = replace(part, evidence=replace(part.evidence, operations=operations))
    return found


def check_spread(rows: Rows, context: Context) -> Part:
    """Returns what all `RECEIVE`, `ACKNOWLEDGE` and `REJECT` events of some queues of `context.spread`,
    from all buckets, show of `in flight is bounded`; `operations` are counted by `check_bucket`."""
    return Part(find_overruns(rows, context, np.unique(rows["stream"]).tolist()))


def _check(asked: Property, rows: Rows, table: Table) -> Part:
    match asked:
        case Property.DELIVERED:
            return Part(find_lost(table))
        case Property.PROCESSED:
            return find_unprocessed(table)
        case Property.ONCE:
            return Part(find_duplicates(table))
        case Property.ORDER:
            finds = (find_swapped_sends, find_broken_polls, find_older_messages)
            return Part(merge([find(table) for find in finds]))
        case Property.ONE_OFFSET:
            return Part(find_shared_offsets(table))
        case Property.NOTHING_NEW:
            return Part(find_unknown(table))
        case Property.READERS:
            return find_leaks(rows, table.context.manifest)
        case Property.EXCLUSIVE:
            return find_overlaps(table)
        case Property.FORWARD:
            return Part(find_moves_back(table))
        case Property.BOUNDED:
            return Part(_overruns(rows, table.context))
        case Property.FINAL:
            return Part(find_zombie_deliveries(table))
        case Property.ABORTED | Property.WHOLE | Property.FENCED | Property.HANGING:
            return Part()


def _overruns(rows: Rows, context: Context) -> Evidence:
    received = rows["stream"][rows["operation"] == Operation.RECEIVE]
    here = [
        stream
        for stream in np.unique(received).tolist()
        if not context.manifest.streams[stream].offsets and stream not in context.spread
    ]
    return find_overruns(rows, context, here) if here else Evidence()


def _looked_at(asked: Property, context: Context, counts: dict[tuple[int, Operation], int]) -> int:
    """Counts the events that a property looks at."""
    streams = context.manifest.streams
    total = 0
    for (stream, operation), count in counts.items():
        is_log = None if stream == NONE else streams[stream].offsets
        if asked is Property.READERS and (stream == NONE or streams[stream].readers is None):
            continue
        if looks_at(asked, operation, is_log):
            total += count
    return total
