"""An audit: looks at the index, checks every bucket, joins what crosses them, and concludes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veristream.history.audited import Audit, Moment, Timeline
from veristream.history.checks.parts import settle
from veristream.history.checks.rows import complete
from veristream.history.checks.transactions.bucket import Telling, Wanted
from veristream.history.job import index
from veristream.history.job.engine import Engine, Tell
from veristream.history.job.layout import Layout
from veristream.history.job.plan import (
    Plan,
    Spans,
    Survey,
    assume,
    find_spans,
    forget,
    has_queues,
    make_plan,
)
from veristream.history.job.tasks import Checking, Explaining, Found, Looking
from veristream.history.job.whole import Ends, judge_whole
from veristream.history.properties import Property
from veristream.history.reasons import Evidence, conclude, merge

ROWS_JOINED: Final = 4_194_304
"""About how many events have their transactions joined in one part."""


def audit(
    name: str,
    layout: Layout,
    asked: Sequence[Property],
    engine: Engine,
    tell: Tell,
    with_timeline: bool = False,
) -> Audit:
    """Judges a history in buckets; `name` is what the audit calls it."""
    plan = _prepare(layout, asked, engine, tell, with_timeline)
    try:
        found, evidence = _check(plan, engine, tell)
    finally:
        forget(plan)
    for each in asked:
        if each is not Property.WHOLE:
            parts = [one.parts[each] for one in found if each in one.parts]
            evidence[each] = settle(each, parts)
    evidence = complete(evidence)
    judgements = tuple(conclude(each, layout.manifest, evidence[each]) for each in asked)
    timeline = None if plan.spans is None else _timeline(plan.spans, found)
    return Audit(name, layout.manifest, layout.rows, judgements, timeline)


def _prepare(
    layout: Layout, asked: Sequence[Property], engine: Engine, tell: Tell, with_timeline: bool
) -> Plan:
    tell("looking for gaps in the index")
    looking = Looking(layout, tuple(index.cut(layout.groups)))
    pieces = len(looking.pieces)
    surveyed = layout.buckets if has_queues(layout.manifest) else 0
    results = engine.map(pieces + surveyed, looking.run)
    surveys: list[Survey] = results[pieces:] or [assume(layout)]
    jumped = index.merge(layout.manifest, results[:pieces])
    return make_plan(layout, asked, jumped, surveys, find_spans(layout) if with_timeline else None)


def _check(plan: Plan, engine: Engine, tell: Tell) -> tuple[list[Found], dict[Property, Evidence]]:
    """Checks all buckets; returns what was found in each, and the evidence that needed all of them."""
    tell("checking")
    checking = Checking(plan, -(-plan.layout.rows // ROWS_JOINED) or 1)
    found: list[Found]
    if Property.WHOLE not in plan.asked:
        return engine.map(checking.count, checking.map), {}
    joined: list[Any] = []
    if _may_have_transactions(plan):
        found, joined = engine.join(checking.count, checking.run, checking.parts + 1, checking.join)
    else:
        found = engine.map(checking.count, checking.map)
    parts = [one.parts[Property.WHOLE].evidence for one in found if Property.WHOLE in one.parts]
    evidence = merge(parts)
    if joined:
        explain = partial(_explain, plan, engine, tell)
        evidence = judge_whole(plan.layout.manifest, evidence, joined, explain)
    return found, {Property.WHOLE: evidence}


def _may_have_transactions(plan: Plan) -> bool:
    return plan.layout.manifest.transactions_recorded and any(
        group.transaction is None or group.transaction[1] >= 0 for group in plan.layout.groups
    )


def _explain(plan: Plan, engine: Engine, tell: Tell, wanted: Wanted) -> tuple[list[Telling], Ends]:
    tell("reading the events of anomalies")
    explaining = Explaining(plan, wanted)
    *tellings, ends = engine.map(explaining.count, explaining.run)
    assert isinstance(ends, Ends)
    return tellings, ends


def _timeline(spans: Spans, found: Sequence[Found]) -> Timeline:
    counts: NDArray[np.int64] = np.zeros((2, spans.count), np.int64)
    for one in found:
        if one.spans is not None:
            counts += one.spans
    moments = (
        Moment(spans.begin_ns + number * spans.span_ns, int(acknowledged), int(received))
        for number, (acknowledged, received) in enumerate(counts.T.tolist())
    )
    return Timeline(spans.span_ns, tuple(moments))
