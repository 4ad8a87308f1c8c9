"""A small audit with a verdict of each kind, a witness with faults in it, and a plot."""

from __future__ import annotations

from veristream.history.audited import Audit, Moment, Timeline
from veristream.history.events import Event, Operation, Outcome
from veristream.history.manifest import Incident, Manifest, Process, Stream
from veristream.history.properties import Property
from veristream.history.verdicts import Anomaly, Judgement, Witness, Word
from veristream.history.witnesses import make_witness

MS = 1_000_000

MANIFEST = Manifest(
    source="kafka",
    processes=(Process("producer-0", "here"), Process("consumer-1", "here", "read_committed", 0)),
    streams=(Stream("orders"),),
    groups=("bills", "tx-0"),
    nodes=("broker-1", "broker-2"),
    workload="log",
    settings={"acks": "1", "min.insync.replicas": "2"},
    incidents=(
        Incident("stop", "broker-2", 1_050 * MS, 1_900 * MS),
        Incident("kill", "broker-1", 1_700 * MS),
    ),
    recorded_at="2026-01-02T03:04:05+00:00",
)


def event(
    process: int, index: int, operation: Operation, outcome: Outcome, ms: float, **more: object
) -> Event:
    """An event in the only partition, with a call of its own unless one is given."""
    fields: dict[str, object] = {"call": index, "stream": 0, "partition": 0} | more
    return Event(process, index=index, operation=operation, outcome=outcome, time_ns=int(ms * MS), **fields)  # type: ignore[arg-type]


LOST = make_witness(
    Anomaly("lost write", stream=0, partition=0, producer=0, number=7),
    [
        event(0, 1, Operation.SEND, Outcome.OK, 1204, producer=0, number=7, offset=7),
        event(1, 9, Operation.READ_TO_END, Outcome.OK, 20_001.5, number=0, offset=9),
    ],
    MANIFEST,
)
ZOMBIE = make_witness(
    Anomaly("zombie commit", group=1, process=0, index=9),
    [
        event(1, 3, Operation.OPEN, Outcome.OK, 900, stream=-1, partition=-1, group=1, epoch=2),
        event(0, 8, Operation.END_COMMIT, Outcome.INVOKE, 1000, call=8, transaction=4, group=1, epoch=1),
        event(0, 9, Operation.END_COMMIT, Outcome.OK, 1010, call=8, transaction=4, group=1, epoch=1),
    ],
    MANIFEST,
)


def judge(
    property_: Property,
    word: Word,
    reason: str,
    operations: int,
    *witnesses: Witness,
    notes: dict[str, int] | None = None,
) -> Judgement:
    """A judgement that found three anomalies of each kind that has a witness."""
    counts = {witness.anomaly.kind: 3 for witness in witnesses}
    return Judgement(property_.value, word, reason, operations, counts, witnesses, notes or {})


AUDIT = Audit(
    "recording",
    MANIFEST,
    12_345,
    (
        judge(Property.DELIVERED, Word.VIOLATED, "3 acknowledged messages were lost", 4_000, LOST),
        judge(Property.ONCE, Word.HELD, "1,997 received messages came once each", 3_997),
        judge(
            Property.PROCESSED,
            Word.NOT_OBSERVABLE,
            "1 of 1 groups that committed have no acknowledgement: record when a message was processed",
            12,
        ),
        judge(Property.WHOLE, Word.HELD, "30 readings of transactions were whole", 90, notes={"G0": 2}),
        judge(Property.FENCED, Word.VIOLATED, "3 commits of fenced producers", 60, ZOMBIE),
    ),
    Timeline(
        500 * MS, tuple(Moment(n * 500 * MS, 200 - 40 * (n % 3), 180 if n > 3 else 0) for n in range(40))
    ),
)
