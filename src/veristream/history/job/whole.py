"""`transactions are seen whole`: evidence of what was joined, with witnesses that the buckets tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from veristream.history.checks.transactions.bucket import Telling, Wanted
from veristream.history.checks.transactions.cycles import Cycles
from veristream.history.checks.transactions.ledger import Ledger
from veristream.history.checks.transactions.whole import Torn
from veristream.history.events import Event, Operation
from veristream.history.manifest import Manifest
from veristream.history.reasons import Evidence
from veristream.history.verdicts import Anomaly, Witness
from veristream.history.witnesses import ABSENCE, first_of_each, make_witness


@dataclass(frozen=True, slots=True)
class Ends:
    """Transactions by their numbers in the ledger: process, own number, first OK `END_COMMIT`."""

    found: dict[int, tuple[int, int, Event]]


Explain = Callable[[Wanted], tuple[Sequence[Telling], Ends]]
"""Returns what each bucket tells of some anomalies, and the transactions that they are about."""


def find_ends(wanted: Wanted, ledger: Ledger) -> Ends:
    """Returns the transactions of some anomalies."""
    found = {}
    for each in wanted.transactions():
        event = ledger.first_end(each, Operation.END_COMMIT)
        assert event is not None
        found[each] = int(ledger.process[each]), int(ledger.number[each]), event
    return Ends(found)


def judge_whole(
    manifest: Manifest, evidence: Evidence, joined: Sequence[Torn | Cycles], explain: Explain
) -> Evidence:
    """Returns the evidence of all buckets together; `evidence` has what each of them counted."""
    readings = [each for each in joined if isinstance(each, Torn)]
    (cycles,) = (each for each in joined if isinstance(each, Cycles))
    torn = sum(each.count for each in readings)
    is_torn = torn > 0 and (manifest.complete or "torn transaction" not in ABSENCE)
    counts = {"torn transaction": torn if is_torn else 0, "G1c": cycles.reading}
    wanted = Wanted(
        tuple(one for each in readings for one in each.first) if is_torn else (),
        tuple(node for node, _ in cycles.first),
        tuple(step for _, steps in cycles.first for step in steps),
    )
    witnesses: tuple[Witness, ...] = ()
    if wanted.torn or wanted.steps:
        tellings, ends = explain(wanted)
        witnesses = first_of_each(_witnesses(manifest, wanted, cycles, tellings, ends))
    return replace(
        evidence,
        asked=sum(each.asked for each in readings),
        counts={kind: count for kind, count in counts.items() if count},
        witnesses=witnesses,
        notes={"G0": cycles.writing} if cycles.writing else {},
    )


def _witnesses(
    manifest: Manifest, wanted: Wanted, cycles: Cycles, tellings: Sequence[Telling], ends: Ends
) -> Iterator[Witness]:
    """Yields the witnesses: of what each bucket tells of an anomaly, the lowest counts."""
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
