"""An audit: looks at the index, checks every bucket, joins what crosses them, and concludes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veristream.history.audited import Audit, Moment, Timeline
from veristream.history.checks.parts import settle
from veristream.history.checks.rows import complete
from veristream.history.checks.transactions.bucket import Telling, Wanted
from veristream.history.checks.transactions.cycles import Cycles
from veristream.history.checks.transactions.whole import Torn
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
from veristream.history.job.tasks import Checking, Ends, Explaining, Found, Looking
from veristream.history.properties import Property
from veristream.history.reasons import Evidence, conclude, merge
from veristream.history.verdicts import Anomaly, Witness
from veristream.history.witnesses import ABSENCE, first_of_each, make_witness

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
        evidence = _judge_whole(plan, engine, tell, evidence, joined)
    return found, {Property.WHOLE: evidence}


def _may_have_transactions(plan: Plan) -> bool:
    return plan.layout.manifest.transactions_recorded and any(
        group.transaction is None or group.transaction[1] >= 0 for group in plan.layout.groups
    )


def _judge_whole(
    plan: Plan, engine: Engine, tell: Tell, evidence: Evidence, joined: Sequence[Torn | Cycles]
) -> Evidence:
    readings = [each for each in joined if isinstance(each, Torn)]
    (cycles,) = (each for each in joined if isinstance(each, Cycles))
    torn = sum(each.count for each in readings)
    is_torn = torn > 0 and (plan.layout.manifest.complete or "torn transaction" not in ABSENCE)
    counts = {"torn transaction": torn if is_torn else 0, "G1c": cycles.reading}
    wanted = Wanted(
        tuple(one for each in readings for one in each.first) if is_torn else (),
        tuple(node for node, _ in cycles.first),
        tuple(step for _, steps in cycles.first for step in steps),
    )
    witnesses: tuple[Witness, ...] = ()
    if wanted.torn or wanted.steps:
        tell("reading the events of anomalies")
        explaining = Explaining(plan, wanted)
        told = engine.map(explaining.count, explaining.run)
        witnesses = first_of_each(_witnesses(plan, wanted, cycles, told))
    return replace(
        evidence,
        asked=sum(each.asked for each in readings),
        counts={kind: count for kind, count in counts.items() if count},
        witnesses=witnesses,
        notes={"G0": cycles.writing} if cycles.writing else {},
    )


def _witnesses(plan: Plan, wanted: Wanted, cycles: Cycles, told: list[Any]) -> Iterator[Witness]:
    """Yields the witnesses: of what each bucket tells of an anomaly, the lowest counts."""
    *buckets, ends = told
    assert isinstance(ends, Ends)
    tellings: list[Telling] = buckets
    manifest = plan.layout.manifest
    for number, (reader, transaction) in enumerate(wanted.torn):
        sender, own, end = ends.found[transaction]
        anomaly = Anomaly("torn transaction", producer=sender, process=reader, transaction=own)
        events = [end]
        for side in (0, 1):
            halves = (each.halves[number][side] for each in tellings)
            events += min((half for half in halves if half is not None), key=lambda half: half.key).events
        yield make_witness(anomaly, events, manifest)
    at = 0
    for node, steps in cycles.first:
        process, own, _ = ends.found[node]
        events = [ends.found[step[0]][2] for step in steps]
        for number in range(at, at + len(steps)):
            shown = (each.steps[number] for each in tellings)
            events += min((one for one in shown if one is not None), key=lambda one: one.key).events
        at += len(steps)
        yield make_witness(Anomaly("G1c", process=process, transaction=own), events, manifest)


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
